"""The workload: a generator and a receiver of messages, each a process of its own beside the broker."""
