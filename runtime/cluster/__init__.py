"""Parallel execution on many workers behind one executor: coordinator, members, transport, bulk loads."""
