"""The catalog as relations: ``information_schema`` and ``pg_catalog``, computed when they are asked for."""
