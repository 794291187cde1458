"""SQL/JSON paths: trees, reading, writing."""
