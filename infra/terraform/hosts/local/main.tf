# Hosts that are network namespaces of this machine, each with its own processes, root file system, name and
# sshd, all in one sandbox. hosts.sh does the work; Terraform knows what there is and what has to change.

terraform {
  required_version = ">= 1.4" # terraform_data, which needs no provider
}

locals {
  prefix    = split("/", var.options.network)[1]
  addresses = { for i, m in var.machines : m.name => cidrhost(var.options.network, i + 11) }
  hosts = {
    for m in var.machines : m.name => {
      address     = local.addresses[m.name]
      ssh_address = local.addresses[m.name]
      roles       = m.roles
    }
  }
  jump   = ""
  script = abspath("${path.module}/hosts.sh")
}

resource "terraform_data" "sandbox" {
  triggers_replace = [var.options.network]
  input = {
    script  = local.script
    folder  = var.options.folder
    gateway = "${cidrhost(var.options.network, 1)}/${local.prefix}"
  }
  provisioner "local-exec" {
    command = "bash \"$SCRIPT\" sandbox-up"
    environment = {
      SCRIPT  = self.input.script
      FOLDER  = self.input.folder
      GATEWAY = self.input.gateway
    }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "bash \"$SCRIPT\" sandbox-down"
    environment = {
      SCRIPT = self.input.script
      FOLDER = self.input.folder
    }
  }
}

resource "terraform_data" "host" {
  for_each = { for m in var.machines : m.name => m }
  triggers_replace = [
    terraform_data.sandbox.id,
    local.addresses[each.key],
    var.options.disk_mb[each.value.size],
    var.ssh.user,
    var.ssh.public_key,
  ]
  input = {
    script     = local.script
    folder     = var.options.folder
    name       = each.key
    address    = "${local.addresses[each.key]}/${local.prefix}"
    disk_mb    = var.options.disk_mb[each.value.size]
    user       = var.ssh.user
    public_key = var.ssh.public_key
    host_key   = var.options.host_key
  }
  provisioner "local-exec" {
    command = "bash \"$SCRIPT\" host-up"
    environment = {
      SCRIPT     = self.input.script
      FOLDER     = self.input.folder
      NAME       = self.input.name
      ADDRESS    = self.input.address
      DISK_MB    = self.input.disk_mb
      SSH_USER   = self.input.user
      PUBLIC_KEY = self.input.public_key
      HOST_KEY   = self.input.host_key
    }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "bash \"$SCRIPT\" host-down"
    environment = {
      SCRIPT = self.input.script
      FOLDER = self.input.folder
      NAME   = self.input.name
    }
  }
}
