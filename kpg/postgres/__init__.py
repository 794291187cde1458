"""Access control and SQLSTATE: roles, grants, privileges, row-level security, passwords."""
