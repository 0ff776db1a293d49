"""A cluster of this machine: ZooKeeper, Nimbus, supervisors and Kafka as processes."""
