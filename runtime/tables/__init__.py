"""Base tables: row stores with rowids, key indexes, row groups, vacuum, and history."""
