"""Recursion in SQL computed for what a query asks of it, by the magic sets that Datalog goals go through.

``restrict`` is the way in: it finds what is asked where a recursive relation is read (``seeds``, ``joins``),
and puts an answer there, which ``asking`` has magic sets make. ``hoist`` brings recursion out of the query
around it; ``bodies`` takes its relations apart, ``absence`` what they leave out, and ``rules`` writes them
as a program, its ``scalars`` by number. ``failing`` keeps away what could fail where the query would not.
"""
