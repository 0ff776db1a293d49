"""Clusters on hosts of their own: described by a file, made by Terraform and Ansible."""
