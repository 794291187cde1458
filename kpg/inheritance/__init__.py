"""Tables that consist of others: PARTITION BY.

A query reads a union; what changes here is one change made of several (``inheriting``), each row in the
partition that takes it (``routing``). ``beside`` is where a change first asks whether there is any of that.
"""
