"""At which slots the arguments of the kernels begin that links call (see ``runtime/native/signature.py``).

``X_Y`` is the first slot of the argument ``y`` of the kernel ``x``: an array's address, behind which come
its dimensions, a slot for each. ``tests/unit/chain/test_arguments.py`` computes them from signatures.
What a kernel returns is in ``slots[0]`` then.

The names at the end are of slots in which a template has what the link needs before it fills the slot in.
"""

# Of all kernels that take updates: data int64[width, rows], time int64[depth, any], diff int64[any].
UPDATES_DATA = 0
UPDATES_TIME = 3
UPDATES_DIFF = 6

# vm.run
RUN_CODE = 0
RUN_CONSTANTS = 3
RUN_DATA = 5
RUN_SOURCES = 8
RUN_ARENA = 11
RUN_OFFSETS = 13
RUN_OUT = 15
RUN_KEPT = 18
RUN_MISSING = 20
RUN_STATUS = 23

# meet.match_few, behind updates
MEET_COLUMNS = 8
MEET_LAYERS = 10
MEET_ORDER = 12
MEET_ORDERED = 13
MEET_CLOSED = 14
MEET_FLOOR = 15
MEET_ORIGIN = 16
MEET_ROOM = 17
MEET_BUFFER = 18

# sort.consolidate and sort.consolidate_few, behind updates
CONSOLIDATE_OUT = 8
CONSOLIDATE_OUT_TIME = 10
CONSOLIDATE_SUMS = 12
CONSOLIDATE_STATE = 14

# head.append, behind updates
APPEND_HEAD = 8

# tail.insert, behind updates
INSERT_TAIL = 8
INSERT_SPARE = 10

# groups.refresh
REFRESH_DATA = 0
REFRESH_DIFF = 3
REFRESH_WHAT = 5
REFRESH_NK = 6
REFRESH_SPEC = 7
REFRESH_SLOTS = 10
REFRESH_ROWS = 12
REFRESH_MARKER = 15
REFRESH_FREE = 16
REFRESH_TOUCHED = 18
REFRESH_OLD = 20
REFRESH_STATE = 23
REFRESH_OUT = 25
REFRESH_OUT_DIFF = 27

# collect.heads
HEADS_DATA = 0
HEADS_OUT = 3

# collect.differences
DIFFERENCES_LAYERS = 0
DIFFERENCES_PREFIX = 3
DIFFERENCES_GROUPS = 6
DIFFERENCES_EPOCHS = 8
DIFFERENCES_OFFSETS = 10
DIFFERENCES_SIGNS = 13
DIFFERENCES_READING = 15
DIFFERENCES_OUT = 17

# collect.later_rounds
LATER_LAYERS = 0
LATER_PREFIX = 3
LATER_ROUNDS = 6
LATER_READING = 8
LATER_OUT = 10

# ranges.follow
FOLLOW_LEFT = 0
FOLLOW_LEFT_DIFF = 3
FOLLOW_RIGHT = 5
FOLLOW_RIGHT_DIFF = 8
FOLLOW_THRESHOLDS = 10
FOLLOW_LAYERS = 12
FOLLOW_COMPARISON = 15
FOLLOW_EPOCH = 16
FOLLOW_OUT = 17

# history.accumulate, behind updates
ACCUMULATE_FIRST = 8
ACCUMULATE_LAST = 9
ACCUMULATE_TABLE = 10

# thresholds.evaluate
EVALUATE_ROUNDS = 0
EVALUATE_DISTINCT = 2
EVALUATE_TABLE = 3
EVALUATE_OUT = 5
EVALUATE_OWED = 7

# Templates: of RUNNING
PROGRAM_OUTPUTS = RUN_OUT + 1  # columns
PROGRAM_FILTERS = RUN_KEPT + 1  # 1 if it may drop rows
PROGRAM_MEMOS = RUN_MISSING + 2  # look-ups of a row in memos
# of MEETING
MATCHES_EACH = MEET_ROOM  # for how many matches of a row to make room; links raise it
MATCHES_WIDTH = MEET_BUFFER  # columns
# of TIDYING
TIDYING_MANY = 0  # address of sort.consolidate
# of APPENDING: two descriptions, each as its kernel takes it, and what else tail.insert takes
APPENDING_HEAD = APPEND_HEAD
APPENDING_INSERT = 12  # address of tail.insert
APPENDING_TAIL = 13
APPENDING_SPARE = 15
# of EVALUATING
EVALUATING_EVALUATE = 0  # address of thresholds.evaluate
EVALUATING_DISTINCT = 1  # whether each row counts once
EVALUATING_BOUND = 2  # of a key's rows, without their signs
# of RANGING
FOLLOWING_WIDTH = FOLLOW_OUT + 1  # columns, and one
# of REFRESHING
REFRESHING_WIDTH = REFRESH_OUT + 1  # columns
