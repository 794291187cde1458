"""HTTP beside the wire protocol: statements, subscriptions, metrics, and the page.

See docs/reference/server.md.
"""
