"""Rewrites of statements before and after binding: views, policies, AS OF, ON CONFLICT, MERGE."""
