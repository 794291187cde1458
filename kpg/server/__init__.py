"""Server for the Postgres wire protocol: many clients share one database.

``listener`` accepts connections and runs the engine's thread; ``client`` serves one connection, with
``startup``, ``extended_protocol`` and ``streams`` for its phases. ``fast_path`` and ``batched_inserts``
answer repeated requests without the client's task. The manual page is docs/reference/server.md.
"""
