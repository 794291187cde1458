"""Statements that define something, and those that change or drop a definition.

``definitions`` sends each to the file for its kind: tables (``defining``), views (``viewing``, ``replacing``,
``rereading``), indexes, ego views, types, domains, routines and functions. ``altering`` is ALTER, in parts.
"""
