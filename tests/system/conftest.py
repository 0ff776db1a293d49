"""One start of the real servers for all system tests, inside the sandbox that ``make test`` enters."""

from kafka_topics import out, topic, topics  # noqa: F401
from real_servers import (  # noqa: F401
    cluster,
    influx_server,
    influxd_program,
    kafka_bootstrap,
    neo4j_home,
    neo4j_server,
    server_homes,
)
