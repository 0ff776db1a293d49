# Hosts that are there already: nothing is made, and nothing of them is destroyed.

terraform {
  required_version = ">= 1.4"
}

locals {
  hosts = {
    for m in var.machines : m.name => {
      address     = m.address
      ssh_address = m.address
      roles       = m.roles
    }
  }
  jump = ""
}

resource "terraform_data" "addresses" {
  input = { for m in var.machines : m.name => m.address }
  lifecycle {
    precondition {
      condition     = alltrue([for m in var.machines : m.address != null && m.address != ""])
      error_message = "machines: hosts of kind existing need an address each."
    }
  }
}
