# Servers on a private network of an OpenStack cloud. The first one has a floating address, open for ssh from the
# caller's address only; the others are reached through it. Unverified: see ../../README.md.

terraform {
  required_version = ">= 1.4"
  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "~> 3.0"
    }
  }
}

locals {
  addresses = { for i, m in var.machines : m.name => cidrhost(var.options.network, i + 11) }
  first     = var.machines[0].name
  jump      = openstack_networking_floatingip_v2.jump.address
  hosts = {
    for m in var.machines : m.name => {
      address     = local.addresses[m.name]
      ssh_address = m.name == local.first ? local.jump : local.addresses[m.name]
      roles       = m.roles
    }
  }
}

data "openstack_networking_network_v2" "external" {
  name = var.options.external_network
}

resource "openstack_networking_network_v2" "private" {
  name = var.cluster
}

resource "openstack_networking_subnet_v2" "private" {
  name            = var.cluster
  network_id      = openstack_networking_network_v2.private.id
  cidr            = var.options.network
  dns_nameservers = var.options.dns
}

resource "openstack_networking_router_v2" "out" {
  name                = var.cluster
  external_network_id = data.openstack_networking_network_v2.external.id
}

resource "openstack_networking_router_interface_v2" "private" {
  router_id = openstack_networking_router_v2.out.id
  subnet_id = openstack_networking_subnet_v2.private.id
}

resource "openstack_networking_secgroup_v2" "cluster" {
  name        = var.cluster
  description = "Everything among the cluster's hosts, ssh from the caller, nothing else."
}

resource "openstack_networking_secgroup_rule_v2" "within" {
  direction         = "ingress"
  ethertype         = "IPv4"
  remote_group_id   = openstack_networking_secgroup_v2.cluster.id
  security_group_id = openstack_networking_secgroup_v2.cluster.id
}

resource "openstack_networking_secgroup_rule_v2" "ssh" {
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = var.ssh.port
  port_range_max    = var.ssh.port
  remote_ip_prefix  = var.options.caller_cidr
  security_group_id = openstack_networking_secgroup_v2.cluster.id
}

resource "openstack_compute_keypair_v2" "caller" {
  name       = var.cluster
  public_key = var.ssh.public_key
}

resource "openstack_networking_port_v2" "host" {
  for_each           = local.addresses
  name               = "${var.cluster}-${each.key}"
  network_id         = openstack_networking_network_v2.private.id
  security_group_ids = [openstack_networking_secgroup_v2.cluster.id]
  fixed_ip {
    subnet_id  = openstack_networking_subnet_v2.private.id
    ip_address = each.value
  }
}

resource "openstack_compute_instance_v2" "host" {
  for_each    = { for m in var.machines : m.name => m }
  name        = "${var.cluster}-${each.key}"
  image_name  = var.options.image
  flavor_name = var.options.flavors[each.value.size]
  key_pair    = openstack_compute_keypair_v2.caller.name
  network {
    port = openstack_networking_port_v2.host[each.key].id
  }
}

resource "openstack_networking_floatingip_v2" "jump" {
  pool = var.options.external_network
}

resource "openstack_networking_floatingip_associate_v2" "jump" {
  floating_ip = openstack_networking_floatingip_v2.jump.address
  port_id     = openstack_networking_port_v2.host[local.first].id
  depends_on  = [openstack_networking_router_interface_v2.private]
}
