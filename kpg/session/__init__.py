"""Sessions and the engine below them: transactions, locks, isolation, settings, scheduling, group commit."""
