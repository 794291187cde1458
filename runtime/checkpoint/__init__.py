"""Checkpoints: the state of a worker captured as data, written to packs, and restored."""
