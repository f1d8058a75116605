output "network_id" {
  description = "Identity of the network."
  value       = terraform_data.network.id
}

output "database_id" {
  description = "Identity of the database."
  value       = terraform_data.database.id
}

output "app_id" {
  description = "Identity of the app."
  value       = terraform_data.app.id
}
