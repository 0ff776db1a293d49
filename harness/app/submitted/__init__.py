"""Topologies that stay on a cluster that others run: submitted, seen by their metrics, given other plans."""
