"""One start of the real servers, inside the sandbox that ``make reliability`` enters."""

from real_servers import (  # noqa: F401
    cluster,
    influx_server,
    influxd_program,
    kafka_bootstrap,
    neo4j_home,
    neo4j_server,
    server_homes,
)
