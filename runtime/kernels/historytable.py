"""The layout of a history table: accumulators by key and time, for times (epoch, rounds...).

Kernels get one array, ``table int64[LENGTH]``, which has counts, and where the table's arrays are:

* ``slots int64[capacity]``, an open-addressing hash table; a filled slot holds 32 bits of the key's hash,
  then 32 of its number + 1, so that neither a probe that fails nor growth looks at the keys;
* ``keys int64[keys, 1 + nk + 1 + k + words]``: link, nk key columns, then the key's first record: epoch, k
  rounds, accumulators (see ``accumulators``);
* ``records int64[records, 1 + 1 + k + words]``: link, then a record;
* ``touched int64[...]``, the keys that have records of the step, and ``current int64[...]``, those to be
  evaluated; ``bits`` marks the latter.

A link is a record's number + 1, or 0. A record of the step in progress bears its epoch, one of closed epochs
``COMMITTED``. From a key's link hang the step's records, latest rounds first and among equal rounds latest
epoch first, then the committed ones in lexicographic order of rounds, each rounds once; the record in the
key is the least committed one if there is any, else the step's first.

The caller keeps the arrays alive, and writes down where they are whenever one is exchanged.
"""

from kpg.runtime.kernels import device, view_intrinsic

COMMITTED = -1  # in the place of a record's epoch
FREE = -2  # in the place of that of a key that is not in use

KEYS, FREE_KEYS, LIVE_KEYS, RECORDS, FREE_RECORDS, LIVE_RECORDS = range(6)
TOUCHED, CURRENT, STEP_RECORDS, FIRST_EPOCH, LAST_EPOCH = range(6, 11)
MIXED = 11  # whether the step had a diff that is not positive
ENTRIES, OWED = 12, 13  # what the last evaluation has written
SINK = 14  # of words that are read for their cache lines only
ABSENT = 15  # whether the output of what is evaluated did not exist before
COLUMNS = 16  # nk
ROUNDS = 17  # k
WORDS = 18
KEYS_AT, KEYS_ROOM, RECORDS_AT, RECORDS_ROOM, SLOTS_AT, SLOTS_ROOM, BITS_AT, BITS_ROOM = range(19, 27)
TOUCHED_AT, TOUCHED_ROOM, CURRENT_AT, CURRENT_ROOM, SPEC_AT, SPEC_ROOM = range(27, 33)
LENGTH = 33
SPEC_WIDTH = 4

view = view_intrinsic()


@device
def keys_of(table):
    width = 2 + table[COLUMNS] + table[ROUNDS] + table[WORDS]
    return view(table[KEYS_AT], table[KEYS_ROOM], width)


@device
def records_of(table):
    return view(table[RECORDS_AT], table[RECORDS_ROOM], 2 + table[ROUNDS] + table[WORDS])


@device
def spec_of(table):
    """The accumulators, as ``accumulators.add_row`` wants them."""
    return view(table[SPEC_AT], table[SPEC_ROOM], SPEC_WIDTH)


@device
def slots_of(table):
    return view(table[SLOTS_AT], 1, table[SLOTS_ROOM])[0]


@device
def bits_of(table):
    return view(table[BITS_AT], 1, table[BITS_ROOM])[0]


@device
def touched_of(table):
    return view(table[TOUCHED_AT], 1, table[TOUCHED_ROOM])[0]


@device
def current_of(table):
    return view(table[CURRENT_AT], 1, table[CURRENT_ROOM])[0]
