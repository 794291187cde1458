"""How batches are described to kernels of several files.

A batch is known to kernels by the address of its *description*, ``int64[LATEST + depth]``; a table of the
beginnings of several, ``int64[layers, BEGINNING]``, has the same places.
"""

DATA = 0  # address of int64[width, rows]
ROWS = 1
TIME = 2  # address of int64[depth, rows], or int64[depth, 1] if the stride is 0
TIME_STRIDE = 3
DIFF = 4  # address of int64[rows], or int64[1] if the stride is 0
DIFF_STRIDE = 5
BEGINNING = 6  # so many places are the beginning
WIDTH = 6
DEPTH = 7
OFFSETS = 8  # address of int32[OFFSETS_LENGTH], the directory
OFFSETS_LENGTH = 9
BOUNDS = 10  # origin, last, shift
PROBES = 13  # rows looked up one by one so far
ENOUGH = 14  # so many probes make a directory pay
LATEST = 15  # an upper bound of all times, coordinate by coordinate
