"""Sessions and the engine: transactions, locks, isolation, settings, scheduling and group commit.

``session_manager`` multiplexes all sessions of a database onto one ``engine``. ``session`` is the interface
of one of them.
"""
