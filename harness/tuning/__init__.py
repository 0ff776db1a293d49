"""Tuners: pure functions from a measured step and an input rate to executors and batch sizes."""
