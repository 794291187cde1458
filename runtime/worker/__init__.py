"""One worker: tables, installed dataflows, steps, rollback, recorded changes."""
