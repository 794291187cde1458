"""A database in a folder: what is kept of it, when, and how it is opened again."""
