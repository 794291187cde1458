"""Who is told of what: changes of views, messages of sessions, notices and errors.

``feed`` has the changes of a view, ``notifications`` the queue of what is still to be told, ``channels``
LISTEN and NOTIFY, ``notices`` what statements say beside their results; ``told`` and ``states`` give errors
Postgres' words and letters.
"""
