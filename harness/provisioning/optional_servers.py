"""InfluxDB and Neo4j in the user's cache, where ``make servers`` puts them.

Hosts do without what is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.backends.server_archive import Archive, archive


@dataclass(frozen=True)
class OptionalServers:
    """InfluxDB's program, and an archive of Neo4j's class path; None for what is not in the cache."""

    influxdb: Path | None
    neo4j: Archive | None

    def there(self) -> dict[str, bool]:
        """Return whether each is there, by the name of its role."""
        return {"influxdb": self.influxdb is not None, "neo4j": self.neo4j is not None}


def find(cache: Path) -> OptionalServers:
    """Look for them.

    Parameters
    ----------
    cache : Path
        The user's cache folder.
    """
    # a folder without a manifest is being made
    whole = sorted(path.parent for path in cache.glob("servers/*/manifest.json"))
    programs = [home / "influxd" for home in whole if home.name.startswith("influxdb-")]
    homes = [home for home in whole if home.name.startswith("neo4j-")]
    jars = {f"neo4j/lib/{jar.name}": jar for home in homes[-1:] for jar in home.rglob("*.jar")}
    return OptionalServers(
        influxdb=programs[-1] if programs else None,
        neo4j=archive("neo4j", jars, cache / "archives") if jars else None,
    )
