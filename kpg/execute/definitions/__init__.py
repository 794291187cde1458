"""Statements that change the catalog: CREATE, ALTER and DROP."""
