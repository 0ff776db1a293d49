# Servers of Hetzner Cloud on a private network, over which all of the cluster's traffic goes. Their public
# addresses are for fetching packages; a firewall lets nothing in but ssh from the caller's address.
# Unverified: see ../../README.md.

terraform {
  required_version = ">= 1.4"
  required_providers {
    hcloud = {
      source  = "hetznercloud/hcloud"
      version = "~> 1.50"
    }
  }
}

locals {
  addresses = { for i, m in var.machines : m.name => cidrhost(var.options.network, i + 11) }
  jump      = ""
  hosts = {
    for m in var.machines : m.name => {
      address     = local.addresses[m.name]
      ssh_address = hcloud_server.host[m.name].ipv4_address
      roles       = m.roles
    }
  }
}

resource "hcloud_network" "private" {
  name     = var.cluster
  ip_range = var.options.network
}

resource "hcloud_network_subnet" "private" {
  network_id   = hcloud_network.private.id
  type         = "cloud"
  network_zone = var.options.network_zone
  ip_range     = var.options.network
}

resource "hcloud_firewall" "caller" {
  name = var.cluster
  rule {
    direction  = "in"
    protocol   = "tcp"
    port       = tostring(var.ssh.port)
    source_ips = [var.options.caller_cidr]
  }
}

resource "hcloud_ssh_key" "caller" {
  name       = var.cluster
  public_key = var.ssh.public_key
}

resource "hcloud_server" "host" {
  for_each     = { for m in var.machines : m.name => m }
  name         = "${var.cluster}-${each.key}"
  image        = var.options.image
  location     = var.options.location
  server_type  = var.options.server_types[each.value.size]
  ssh_keys     = [hcloud_ssh_key.caller.id]
  firewall_ids = [hcloud_firewall.caller.id]
  network {
    network_id = hcloud_network.private.id
    ip         = local.addresses[each.key]
  }
  depends_on = [hcloud_network_subnet.private]
}
