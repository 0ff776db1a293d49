"""The commands, a module a group of them; with ``console`` the only modules that print."""
