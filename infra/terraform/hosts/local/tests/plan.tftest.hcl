# What is planned, without making it: `terraform init && terraform test` in this folder's parent.

variables {
  cluster = "three"
  machines = [
    { name = "control", roles = ["zookeeper", "nimbus", "kafka"], size = "large" },
    { name = "node-1", roles = ["supervisor"] },
    { name = "node-2", roles = ["supervisor"] },
  ]
  ssh     = { user = "harness", public_key = "ssh-ed25519 AAAA test" }
  options = { folder = "/nowhere", host_key = "/nowhere/key" }
}

run "addresses_follow_the_list" {
  command = plan
  assert {
    condition     = output.hosts["control"].address == "10.97.0.11" && output.hosts["node-2"].address == "10.97.0.13"
    error_message = "the first host has address 11, the next ones follow"
  }
}

run "a_host_added_at_the_end_moves_nobody" {
  command = plan
  variables {
    machines = [
      { name = "control", roles = ["nimbus"] },
      { name = "node-1", roles = ["supervisor"] },
      { name = "node-2", roles = ["supervisor"] },
      { name = "a-new-one", roles = ["supervisor"] },
    ]
  }
  assert {
    condition     = output.hosts["node-2"].address == "10.97.0.13" && output.hosts["a-new-one"].address == "10.97.0.14"
    error_message = "addresses follow the list, not the alphabet"
  }
}

run "the_inventory_has_a_group_a_role" {
  command = plan
  assert {
    condition     = join(" ", keys(yamldecode(output.inventory).all.children.supervisor.hosts)) == "node-1 node-2"
    error_message = "supervisors are node-1 and node-2"
  }
  assert {
    condition     = yamldecode(output.inventory).all.hosts["control"].ansible_host == "10.97.0.11"
    error_message = "Ansible logs in at the host's address"
  }
}

run "two_of_one_name_are_refused" {
  command = plan
  variables {
    machines = [{ name = "a", roles = ["nimbus"] }, { name = "a", roles = ["kafka"] }]
  }
  expect_failures = [var.machines]
}

run "a_name_too_long_for_an_interface_is_refused" {
  command = plan
  variables {
    machines = [{ name = "a-name-of-fifteen", roles = ["nimbus"] }]
  }
  expect_failures = [var.machines]
}
