"""Statement execution: parses a script and runs each statement by its handler.

``changes`` holds DML, ``definitions`` DDL and ``queries`` the statements that read.
"""
