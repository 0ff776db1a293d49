"""Kafka: topics, offsets, producers and consumers."""
