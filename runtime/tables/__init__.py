"""Base tables at rest: row stores and the indexes of their keys."""
