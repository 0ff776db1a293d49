"""Spark: from samples and metric rows to sums."""
