"""Many workers behind one executor: coordinator, members, exchange of rows and texts, table shards, loads."""
