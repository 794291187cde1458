"""The description by which kernels know a layer of a trace, ``int64[LATEST + depth]``: what is at each place.

A layer is a sorted *batch* or the *head*, whose rows are in the order in which they came and are found by a
hash of their first ``HASHED`` columns. Rows are ``int64[WIDTH, STRIDE]``, of which the first ``ROWS`` of each
column are in use; in a batch the two are the same.
"""

DATA = 0  # address of int64[WIDTH, STRIDE]
ROWS = 1
TIME = 2  # address of int64[DEPTH, STRIDE], or int64[DEPTH, 1] if the stride of times is 0
TIME_STRIDE = 3
DIFF = 4  # address of int64[STRIDE], or int64[1] if the stride of diffs is 0
DIFF_STRIDE = 5
WIDTH = 6
DEPTH = 7
STRIDE = 8
OFFSETS = 9  # address of int32[OFFSETS_LENGTH], a batch's directory
OFFSETS_LENGTH = 10
BOUNDS = 11  # of the directory: origin, last, shift
PROBES = 14  # rows looked up one by one so far
ENOUGH = 15  # so many probes make a directory pay
SLOTS = 16  # address of int32[MASK + 1]: the newest row of a hash and one; 0 in a batch
MASK = 17
LINKS = 18  # address of int32[STRIDE]: the next older row of the same slot and one
HASHED = 19
COUNTS = 20  # rows of the head with a diff other than 1
VISITED = 21  # rows of the head looked at, and of these in vain, since it was begun
VAIN = 22
LATEST = 23  # an upper bound of all times, coordinate by coordinate
