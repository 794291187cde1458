"""A database in a folder: write-ahead log, checkpoints, recovery, backup."""
