"""The state of a worker as data, and back: what a checkpoint writes and an opened database begins with."""
