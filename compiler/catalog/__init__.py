"""The catalog of the compiler: tables and views, constraints, routines, roles, privileges and policies."""
