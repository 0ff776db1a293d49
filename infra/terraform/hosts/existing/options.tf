variable "options" {
  description = "Nothing to choose: every machine of machines has its address."
  type        = object({})
  default     = {}
}
