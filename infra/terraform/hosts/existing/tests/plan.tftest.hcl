# `terraform init && terraform test` in this folder's parent.

variables {
  cluster = "ours"
  machines = [
    { name = "control", roles = ["zookeeper", "nimbus", "kafka"], address = "192.0.2.1" },
    { name = "node-1", roles = ["supervisor"], address = "192.0.2.2" },
  ]
  ssh = { user = "debian", public_key = "" }
}

run "hosts_are_where_they_are" {
  command = apply
  assert {
    condition     = output.hosts["node-1"].address == "192.0.2.2"
    error_message = "an existing host keeps its address"
  }
  assert {
    condition     = yamldecode(output.inventory).all.hosts["control"].ansible_user == "debian"
    error_message = "the inventory says who logs in"
  }
}

run "a_host_without_address_is_refused" {
  command = plan
  variables {
    machines = [{ name = "control", roles = ["nimbus"] }]
  }
  expect_failures = [terraform_data.addresses]
}
