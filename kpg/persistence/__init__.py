"""Persistence: a database in a folder, by a write-ahead log and checkpoints.

``write_ahead_log`` records each commit, ``checkpoints`` bound the log, ``recovery`` opens a folder.
``database_state`` is the persistent state apart from rows. ``backup`` copies a folder.
``inspection`` checks and repairs it.
"""
