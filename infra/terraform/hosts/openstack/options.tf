variable "options" {
  description = "Image and flavours of the cloud, its external network, who may come in by ssh."
  type = object({
    image            = string
    flavors          = object({ small = string, medium = string, large = string })
    external_network = string # name of the network that floating addresses come from
    network          = optional(string, "10.97.0.0/24")
    caller_cidr      = string # e.g. 203.0.113.7/32
    dns              = optional(list(string), [])
  })
  validation {
    condition     = can(cidrhost(var.options.caller_cidr, 0)) && !endswith(var.options.caller_cidr, "/0")
    error_message = "options.caller_cidr: an address range, not the whole world."
  }
}
