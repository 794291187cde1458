"""PL/pgSQL and triggers: bodies are run statement by statement, what they compute and ask by the engine."""
