"""One start of the real servers for all system tests, inside the sandbox that ``make test`` enters."""

from real_servers import (  # noqa: F401
    cluster,
    influx_server,
    influxd_program,
    kafka_bootstrap,
    neo4j_home,
    neo4j_server,
    server_homes,
)
