"""What the links of a chain are made of: what is at each place of their tables (see ``kernels.chain``).

The limits at the end are those of what runs in Python, too: what does not keep to them is done there.
"""

# Of a stream.
STREAM_DATA = 0  # of int64[STREAM_WIDTH, STREAM_ROWS]
STREAM_WIDTH = 1
STREAM_ROWS = 2
STREAM_DIFF = 3  # address of int64[STREAM_DIFFS]
STREAM_DIFFS = 4  # 1 if all rows have the same diff, else STREAM_ROWS
STREAM_ORDERED = 5  # whether rows are known to be sorted
STREAM_FIELDS = 6

# Of a link.
LINK_KIND = 0
LINK_POSITION = 1  # of its operator
LINK_INPUT = 2  # the stream it reads
LINK_OUTPUT = 3  # the stream it writes
LINK_HEARD = 4  # the least position of an operator outside of the chain that reads the output, or NOBODY
LINK_FUNCTION = 5  # address of the kernel
LINK_SLOTS = 6  # address of the template int64[MOST_SLOTS]
LINK_EXTRA = 7  # address of what else there is to know, as the kind has it, see below
LINK_SKIPPED = 8  # whether the operator is to run in Python
LINK_READ = 9  # address of the operator's streams, their number first, in its last link; 0 in others
LINK_UPDATES_IN = 10  # counted in the last link of an operator
LINK_UPDATES_OUT = 11
LINK_NANOSECONDS = 12  # in all steps
LINK_EPOCH = 13  # of the last step in which it ran, and
LINK_LATEST = 14  # the nanoseconds of that
LINK_FIELDS = 15

PASSING = 0  # the output is the input
SELECTING = 1  # columns of the input: LINK_EXTRA is their number, and which
RUNNING = 2  # vm.run
MEETING = 3  # meet.match_few
GATHERING = 4  # all of several streams: LINK_EXTRA is their number, and which
NEGATING = 5
TIDYING = 6  # sort.consolidate_few, for a tail sort.consolidate: LINK_EXTRA is the arrangement's place
LEAVING = 7  # what leaves a loop is kept: LINK_EXTRA is int64[LEFT_FIELDS]
# These and the following have state, and are told of as changed.
APPENDING = 8  # head.append or tail.insert: LINK_EXTRA is the arrangement's place
REFRESHING = 9  # groups.refresh: LINK_EXTRA is the table's state
READING_TOP = 10  # collect.differences of the groups that changed: LINK_EXTRA is int64[TOP_FIELDS]
RANGING = 11  # ranges.follow: LINK_EXTRA is int64[RANGE_FIELDS]
EVALUATING = 12  # history.accumulate and thresholds.evaluate: LINK_EXTRA is the table's state

# Of what a LEAVING has kept of all rounds.
LEFT_DATA = 0  # address of int64[width, LEFT_ROOM]
LEFT_DIFF = 1  # address of int64[LEFT_ROOM]
LEFT_ROOM = 2
LEFT_ROWS = 3
LEFT_FIELDS = 4

# Of what is known of an arrangement's place, int64[PLACE_FIELDS].
PLACE_GOES_TO = 0
PLACE_BOUND = 1  # no multiplicity is larger
PLACE_FIELDS = 2
TO_HEAD = 0
TO_TAIL = 1
TO_JOIN = 2  # between the look-ups of a path: updates that cancel out would meet all that follows

# Of what a link knows that reads an arrangement in order.
READ_PLACE = 0  # address of the arrangement's place
READ_TAIL = 1  # address of its tail's description; 0 if it is not to be read so
READ_LAST = 2  # address of what layers have of the tail, int64[BEGINNING]
# A READING_TOP knows besides
TOP_HEADS = 3  # address of collect.heads
TOP_GROUP = 4  # how many columns tell groups apart
TOP_WIDTH = 5  # columns of a row
TOP_SKIP = 6  # the window of rows that are read of a group
TOP_LIMIT = 7
TOP_DEPTH = 8  # of the arrangement's times
# in loops
TOP_LATER = 9  # address of collect.later_rounds; 0 elsewhere
TOP_LATEST = 10  # address of the latest rounds in the batches, int64[CHAIN_DEPTH - 1]
TOP_PREFIX = 11  # of what is owed: the address of the groups, int64[TOP_GROUP, TOP_TASKS]
TOP_TASKS = 12
TOP_OWED = 13  # how many groups, and rounds of each; see CHAIN_LACKED
TOP_FIELDS = 14
# and a RANGING
RANGE_THRESHOLDS = 3  # the stream of their changes; LINK_INPUT is that of the rows'
RANGE_FIELDS = 4

# Of what is told of a change of state.
CHANGE_LINK = 0
CHANGE_VERDICT = 1  # of head.append, or INSERTED; of RANGING, whether it has read in order
CHANGE_APPENDED = 2  # updates
CHANGE_ADDED = 3  # how much any row's multiplicity may have grown; of READING_TOP, updates walked in vain
CHANGE_FIELDS = 4

# Of the state.
CHAIN_NEXT = 0  # the link to run next
CHAIN_LIMIT = 1  # operators from this position on are to wait
CHAIN_FREE = 2  # address of memory for streams
CHAIN_END = 3  # where that ends
CHAIN_TIME = 4  # address of the step's time int64[1, 1]
CHAIN_CLOSED = 5  # as seek.match takes them
CHAIN_FLOOR = 6
CHAIN_CHANGED = 7  # how many links that have state ran, and are listed
CHAIN_TOLD = 8  # how many links have output for operators outside of the chain, and are listed
CHAIN_WANTED = 9  # words that the next link needs
CHAIN_CLOCK = 10  # address of a function that writes nanoseconds to its first slot; 0 if nobody counts
CHAIN_LACKED = 11  # address of int64[any, CHAIN_WANTED]: what memos lack, as vm.run takes it; what is owed
CHAIN_DEPTH = 12  # of times
# Of the chain of a loop, which runs round after round.
CHAIN_CARRIES = 13  # address of a number, and as many pairs of streams: the second is the first a round later
CHAIN_LAST = 14  # the round before which to stop
CHAIN_OTHER = 15  # address of the memory for the streams of the next round
CHAIN_OTHER_END = 16  # where that ends
CHAIN_BASE = 17  # address of the memory for those of this round
CHAIN_FIELDS = 18

WAITS = -1  # nothing to do before CHAIN_LIMIT
NARROW = -2  # memory is to be made for CHAIN_WANTED words
DOUBTS = -3  # the operator of the link before CHAIN_NEXT must look at what it has put out
LACKS = -4  # memos are to be filled before the link goes on
LEAVES = -5  # what the link has kept is to be taken out before it goes on
OWES = -6  # the operator of the link before CHAIN_NEXT owes CHAIN_WANTED changes in later rounds
CRAMPED = -7  # memory is to be made for CHAIN_WANTED words of the next round

INSERTED = -1  # instead of a verdict: they are in the tail

DONE = 0  # of one link
FAILED = 1

MOST_SLOTS = 32
NOBODY = 2**62  # a position behind all operators

SMALL_STEP = 1 << 11  # updates that go to a head: more are sorted at once as cheaply
MOST_IN_TAIL = 1 << 12  # updates
FEW_IN_TAIL = 1 << 11  # updates: to copy half as many takes half a microsecond a column
STEPS_IN_TAIL = 4  # so many have room, if they bring more: sealing costs more than what is copied besides
SMALL_FOR_TAIL = MOST_IN_TAIL // STEPS_IN_TAIL  # updates of a step
MANY = 1 << 13  # from so many rows on it pays to pack them into words, or to ask how many matches there are
FEW_TIDIED = 48  # updates that are consolidated for a head: more are left to who reads them
LEAST_ROOM = 64  # for matches, besides those that a stream row is expected to have
MOST_ROOM = 1 << 16  # more matches are made piece by piece
MOST_COUNTED = 2**62  # what no multiplicity may come to: a difference of two below it fits 64 bits
