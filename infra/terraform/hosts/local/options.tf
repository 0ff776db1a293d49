variable "options" {
  description = "Folder for pid files, locks and logs; the private network; the hosts' ssh key; disks by size."
  type = object({
    folder   = string
    network  = optional(string, "10.97.0.0/24")
    host_key = string # file of the private key that every host's sshd shows
    disk_mb  = optional(object({ small = number, medium = number, large = number }), { small = 2048, medium = 4096, large = 8192 })
  })
}
