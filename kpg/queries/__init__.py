"""Queries once they are bound: which plan to make of them, and rows from what a plan keeps.

``planning`` is what the compiler is told of the engine, ``reading`` makes rows of words, ``stopping`` ends a
recursion that has enough of them, ``widening`` plans again where DECIMALs were too narrow.
"""
