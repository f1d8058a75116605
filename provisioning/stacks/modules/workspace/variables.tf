variable "workspace" {
  description = "Slug of the workspace."
  type        = string
}

variable "effects" {
  description = "Absolute path of the effects ledger, a text file that is only appended to."
  type        = string
}

variable "fail_at" {
  description = "Which resource fails, before its effect: network, database, app, or none."
  type        = string
  default     = ""

  validation {
    condition     = contains(["", "network", "database", "app"], var.fail_at)
    error_message = "fail_at is empty or one of network, database, app."
  }
}

variable "pause_at" {
  description = "Which resource waits, before its effect, while the file pause_while exists."
  type        = string
  default     = ""

  validation {
    condition     = contains(["", "network", "database", "app"], var.pause_at)
    error_message = "pause_at is empty or one of network, database, app."
  }
}

variable "pause_while" {
  description = "Absolute path of the file that holds pause_at; ten minutes at most."
  type        = string
  default     = ""
}
