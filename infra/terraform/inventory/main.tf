# An Ansible inventory in YAML from hosts, whoever made them. Pure: no resource, no provider.

terraform {
  required_version = ">= 1.4"
}

variable "hosts" {
  type = map(object({
    address     = string
    ssh_address = string
    roles       = list(string)
  }))
}

variable "ssh" {
  type = object({
    user       = string
    public_key = string
    port       = optional(number, 22)
  })
}

variable "jump" {
  description = "Address of the host through which the others are reached; empty where each is reached itself."
  type        = string
  default     = ""
}

locals {
  roles = distinct(flatten([for h in values(var.hosts) : h.roles]))
  vars = {
    for name, h in var.hosts : name => merge(
      {
        ansible_host = h.ssh_address
        ansible_user = var.ssh.user
        ansible_port = var.ssh.port
        address      = h.address
      },
      # group_vars/all.yml of the playbooks makes a proxy of it
      { for key, value in { jump = "${var.ssh.user}@${var.jump}" } : key => value if var.jump != "" && h.ssh_address != var.jump }
    )
  }
}

output "yaml" {
  value = yamlencode({
    all = {
      hosts    = local.vars
      children = { for r in local.roles : r => { hosts = { for name, h in var.hosts : name => {} if contains(h.roles, r) } } }
    }
  })
}
