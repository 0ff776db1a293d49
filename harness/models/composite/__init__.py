"""The composite model: the source's estimates, the proposed plan's network, its solution with intervals."""
