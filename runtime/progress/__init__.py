"""Product timestamps and the frontiers (antichains) that say which of them may still occur."""
