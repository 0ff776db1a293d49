# The interface of every implementation of `hosts`; this file is the same in each of them (a test asserts it).
# What differs is in options.tf.

variable "cluster" {
  description = "Name of the cluster; part of the name of everything that is made."
  type        = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}$", var.cluster))
    error_message = "cluster: lower-case letters, digits and hyphens, at most 31."
  }
}

variable "machines" {
  description = "The hosts in order (a new one goes to the end, so that addresses stay): name, roles, size."
  type = list(object({
    name    = string
    roles   = list(string)
    size    = optional(string, "small")
    address = optional(string)
  }))
  validation {
    condition     = length(var.machines) > 0 && alltrue([for m in var.machines : can(regex("^[a-z][a-z0-9-]{0,11}$", m.name))])
    error_message = "machines: at least one, named with lower-case letters, digits and hyphens, at most 12."
  }
  validation {
    condition     = length(distinct(var.machines[*].name)) == length(var.machines)
    error_message = "machines: two have the same name."
  }
  validation {
    condition     = alltrue([for m in var.machines : contains(["small", "medium", "large"], m.size)])
    error_message = "machines: a size is small, medium or large."
  }
}

variable "ssh" {
  description = "Who logs in: user, and the public key (its text) that the hosts accept."
  type = object({
    user       = string
    public_key = string
    port       = optional(number, 22)
  })
}

output "hosts" {
  description = "By name: address within the cluster, address for ssh, roles."
  value       = local.hosts
}

output "inventory" {
  description = "Ansible inventory in YAML: a group a role."
  value       = module.inventory.yaml
}

module "inventory" {
  source = "../../inventory"
  hosts  = local.hosts
  ssh    = var.ssh
  jump   = local.jump
}
