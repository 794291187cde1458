"""Access control and SQLSTATE codes, as in Postgres.

``roles`` and ``passwords`` identify users, ``grants`` and ``privileges`` control what a role may do,
``row_security`` which rows it may write. ``sqlstate`` maps errors to Postgres' codes and fields.
"""
