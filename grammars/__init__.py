"""Grammar files of the languages that kpg parses itself."""
