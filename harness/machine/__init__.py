"""The machine at hand: namespaces, server processes and their jars, CPU quotas, locks, secrets."""
