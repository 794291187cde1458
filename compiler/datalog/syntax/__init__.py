"""Syntax trees of Datalog programs.

``ast`` has the nodes and ``traverse`` walks them. ``components`` makes statements of instances of components,
``lattices`` makes rules of lattices, and ``flatten`` gives one rule for each head and alternative.
"""
