"""The catalog that queries are compiled against: entries, names, privileges, constraints, routines."""
