"""Neo4j as a store of plans: its client, its server, plans as rows."""
