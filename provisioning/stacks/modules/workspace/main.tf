# The example workspace: three resources in a chain that need no network and no provider.
# Each one appends a line to the effects ledger when it is created, so that the ledger counts
# what really happened, whatever the state or a job record says.

terraform {
  required_version = ">= 1.6"
}

locals {
  create = <<-SHELL
    waited=0
    while [ -n "$HOLD" ] && [ -e "$HOLD" ] && [ "$waited" -lt 6000 ]; do
      sleep 0.1
      waited=$((waited + 1))
    done
    if [ "$FAIL" = "true" ]; then
      echo "$RESOURCE was told to fail" >&2
      exit 1
    fi
    printf '%s %s created\n' "$WORKSPACE" "$RESOURCE" >> "$EFFECTS"
  SHELL
}

resource "terraform_data" "network" {
  input = { workspace = var.workspace }

  provisioner "local-exec" {
    command = local.create
    environment = {
      RESOURCE  = "network"
      WORKSPACE = var.workspace
      EFFECTS   = var.effects
      FAIL      = var.fail_at == "network"
      HOLD      = var.pause_at == "network" ? var.pause_while : ""
    }
  }
}

resource "terraform_data" "database" {
  input = { workspace = var.workspace, network = terraform_data.network.id }

  provisioner "local-exec" {
    command = local.create
    environment = {
      RESOURCE  = "database"
      WORKSPACE = var.workspace
      EFFECTS   = var.effects
      FAIL      = var.fail_at == "database"
      HOLD      = var.pause_at == "database" ? var.pause_while : ""
    }
  }
}

resource "terraform_data" "app" {
  input = { workspace = var.workspace, database = terraform_data.database.id }

  provisioner "local-exec" {
    command = local.create
    environment = {
      RESOURCE  = "app"
      WORKSPACE = var.workspace
      EFFECTS   = var.effects
      FAIL      = var.fail_at == "app"
      HOLD      = var.pause_at == "app" ? var.pause_while : ""
    }
  }
}
