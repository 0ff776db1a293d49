"""InfluxDB as a store of metrics: its client, its server, metrics that wait for it."""
