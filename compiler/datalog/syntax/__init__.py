"""Syntax trees of Datalog programs, and the rewrites that stay within them.

``ast`` defines the nodes and ``traverse`` walks them. ``components`` instantiates components, ``lattices``
expands lattice columns to rules, and ``flatten`` makes one rule per head and alternative.
"""
