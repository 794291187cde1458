"""The server: Postgres' wire protocol for many clients of one database. See docs/reference/server.md."""
