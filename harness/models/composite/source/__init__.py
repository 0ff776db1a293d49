"""Estimates that the composite model takes from an observation."""
