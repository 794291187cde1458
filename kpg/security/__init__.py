"""Roles, what they own and may do, their passwords, and which rows they see: row level security."""
