"""HTTP interface of the server: statements, subscriptions, metrics and the web page.

The manual page is docs/reference/server.md.
"""
