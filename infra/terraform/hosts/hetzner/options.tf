variable "options" {
  description = "Image, place and server types of Hetzner Cloud, who may come in by ssh. HCLOUD_TOKEN is in the environment."
  type = object({
    image        = optional(string, "debian-12")
    location     = optional(string, "fsn1")
    network_zone = optional(string, "eu-central")
    server_types = optional(object({ small = string, medium = string, large = string }), { small = "cx23", medium = "cx33", large = "cx43" })
    network      = optional(string, "10.97.0.0/24")
    caller_cidr  = string # e.g. 203.0.113.7/32
  })
  validation {
    condition     = can(cidrhost(var.options.caller_cidr, 0)) && !endswith(var.options.caller_cidr, "/0")
    error_message = "options.caller_cidr: an address range, not the whole world."
  }
}
