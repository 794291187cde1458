"""A worker as data, and a fork of a worker: both produce a new worker with the same state.

Operators are identified by what they compute. A restored worker has tables and no views. Views that are then
installed take the state of their operators from the capture; operators without one are computed.

:func:`fork` makes a second worker; writes of either are invisible to the other. Both share the dictionary,
which only grows, and full row groups and batches, which are immutable. Indexes, group tables and live bits
are copied lazily: the new worker gets dormant objects, and the old worker's objects are *lent*. On the first
access from either side the new worker takes its copy. Objects that are still dormant since the database was
opened stay so in both. So a fork costs a walk over the objects, and each object is copied at most once.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol
from zlib import crc32

from kpg.runtime.checkpoint.captured_state import (
    Array,
    Fill,
    Leaf,
    Part,
    Read,
    State,
    UnsavedError,
    fill_by,
    filling,
    kept,
    lull,
    read,
    state_of,
    wake,
)
from kpg.runtime.checkpoint.operator_state import (
    STATELESS,
    capture_operator,
    captured,
    restore_known,
    version_of_operator,
)
from kpg.runtime.checkpoint.table_state import (
    Take,
    capture_dictionary,
    capture_memory,
    capture_table,
    capture_table_past,
    restore_dictionary,
    restore_memory,
    restore_table,
    restored_table_past,
    version_of_table,
)
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import Installation
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Memory
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.reduce import Distinct, LoopDistinct, LoopReduce, Reduce, Single
from kpg.runtime.plan import Plan
from kpg.runtime.render.fingerprint import Identities
from kpg.runtime.tables.table import Table
from kpg.runtime.types import Schema

WORKER_TABLES: Final = 32
"""So many tables that follow each other are described together."""
OPERATORS: Final = 256
"""Operators are described in so many parts."""


class View(Installation, Protocol):
    """An installation whose operators are in this process."""

    name: str
    operators: tuple[Operator, ...]
    past: Memory | None
    found: tuple[Plan, object] | None


class Holder(Protocol):
    """What is needed of a worker."""

    dictionary: Dictionary
    tables: dict[str, Table]
    epoch: int
    tables_made: int
    remembering: bool
    saved: "Saved | None"
    reread: Callable[[], Read] | None
    """Makes a reader for one more worker of what this one was restored of."""

    @property
    def views(self) -> Mapping[str, View]: ...
    @property
    def has_pending(self) -> bool: ...
    def table_number(self, table: str) -> int: ...
    def start_at(self, epoch: int) -> None: ...
    def remember(self, installed: Installation) -> None: ...


class Saved:
    """What the tables and operators of a worker kept, on its way to another's."""

    def __init__(self, state: Any, read: Read) -> None:
        self._tables = state["tables"]
        self._operators = state["operators"]
        self._pasts = state["pasts"]
        self._read = read
        self._filled: set[Table] = set()
        self.computed: list[str] = []
        """What was not found, and had to be computed."""
        self.versions: dict[str, object] = {}
        """What tables, by their numbers, and operators were when they had just been restored."""

    def fill(self, table: Table, number: int, take: Take, *, past: bool) -> None:
        """Have a new table keep what the one of that number kept, if there was one, its past too if asked."""
        state = self._tables.get(str(number))
        if state is not None:
            restore_table(table, state, self._read, take)
            self._filled.add(table)
            # Rows that are here now, and were in shards, are to be described as such.
            same = "sharded" not in state["groups"] or table.sharded
            self.versions[str(number)] = version_of_table(table) if same else None
            if past and state["past"] is not None:
                table.past = restored_table_past(state["past"], self._read)

    def keeps(self, table: Table, uniques: Sequence[str]) -> bool:
        """Whether a table was filled: then it is unique in nothing but what has these names from now on."""
        if table in self._filled:
            table._unique = [index for index in table._unique if index.name in uniques]
        return table in self._filled

    def is_unique(self, table: Table, name: str) -> bool:
        """Whether a table was filled that was unique in what has a name."""
        return table in self._filled and any(index.name == name for index in table._unique)

    def restore(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        """Have new operators keep what they kept before; those of which it is not known, to be computed."""
        left = restore_known(operators, self._operators, self._read)
        self.computed += [operator.place.description for operator in left]
        for operator in set(operators).difference(left):
            self.versions[operator.place.fingerprint] = version_of_operator(operator)
        return left

    def identities(self, name: str, plan: Plan) -> Identities | None:
        """What another worker has found of the plan of a view, if it is known."""
        return None

    def remember(self, worker: Holder, view: View) -> None:
        """Have a view that was remembered be so again."""
        state = self._pasts.get(view.name)
        if state is not None:
            worker.remember(view)
            assert view.past is not None
            restore_memory(view.past, state, self._read)


def capture(worker: Holder) -> State:
    """The state of a worker between steps; InternalError while changes are pending."""
    if worker.has_pending:
        raise InternalError("a state with pending changes cannot be captured")
    numbered = {str(worker.table_number(name)): table for name, table in worker.tables.items()}
    return _root(worker, _tables(numbered), captured(tuple(sorted(_operators(worker)))))


def leaves(worker: Holder) -> State:
    """As :func:`capture`, tables and operators in leaves, which are captured when that is asked for."""
    if worker.has_pending:
        raise InternalError("a state with pending changes cannot be captured")
    tables: dict[str, dict[str, Table]] = {}
    for name, table in worker.tables.items():
        number = worker.table_number(name)
        tables.setdefault(str(number // WORKER_TABLES), {})[str(number)] = table
    operators: dict[str, list[Operator]] = {}
    for operator in sorted(_operators(worker)):
        if not isinstance(operator, STATELESS):
            part = crc32(operator.place.fingerprint.encode()) % OPERATORS
            operators.setdefault(str(part), []).append(operator)
    return _root(
        worker,
        {
            name: Leaf(
                {number: version_of_table(one) for number, one in some.items()}, partial(_tables, some)
            )
            for name, some in tables.items()
        },
        {
            name: Leaf(
                {one.place.fingerprint: version_of_operator(one) for one in some},
                partial(captured, tuple(some)),
            )
            for name, some in operators.items()
        },
    )


def _operators(worker: Holder) -> set[Operator]:
    return {operator for view in worker.views.values() for operator in view.operators}


def _tables(tables: Mapping[str, Table]) -> State:
    return {number: capture_table(table) for number, table in tables.items()}


def _root(worker: Holder, tables: State, operators: State) -> State:
    return {
        "epoch": worker.epoch,
        "tables made": worker.tables_made,
        "dictionary": capture_dictionary(worker.dictionary),
        "tables": tables,
        "operators": operators,
        "pasts": {name: capture_memory(view.past) for name, view in worker.views.items() if view.past},
    }


def restore(worker: Holder, state: Any, read: Read, reread: Callable[[], Read]) -> None:
    """Have a new worker take on a state: tables once they are created, operators once they are installed.

    Set ``worker.saved`` to None when all of them are there. ``reread`` makes a reader for another one.
    """
    if worker.tables or worker.epoch:
        raise InternalError("only a new worker can take on a state")
    restore_dictionary(worker.dictionary, state["dictionary"], read)
    worker.start_at(state["epoch"])
    worker.tables_made = state["tables made"]
    worker.reread = reread
    worker.saved = Saved(state if worker.remembering else {**state, "pasts": {}}, read)


TABLES = (Reduce, Distinct, Single, LoopReduce, LoopDistinct)
"""Operators that keep a table of groups."""


class Lent:
    """Wakes who is made of an object's arrays before the object itself is used."""

    def __init__(self) -> None:
        self.borrowers: list[weakref.ref[object]] = []

    def __call__(self, one: object, state: State) -> None:
        borrowers, self.borrowers = self.borrowers, []
        for borrower in borrowers:
            found = borrower()
            if found is not None:
                wake(found)


class Borrowing:
    """Puts an object in place that is made of what another one has lent."""

    def __init__(self, lent: Lent, fill: Fill) -> None:
        self.lent = lent
        self._fill = fill

    def __call__(self, one: object, state: State) -> None:
        self._fill(one, state)


def lend(one: object, borrower: object, state: State) -> None:
    """Have an object be used no more before the borrower, which is dormant, has copies of its ``state``.

    Where the object sleeps, the borrower borrows of whom it does, if it does; else both have what is stored.
    """
    if state_of(borrower) is None:
        raise InternalError("who borrows must be dormant")
    if state_of(one) is None:
        lull(one, state, Lent())
    match filling(one):
        case Lent() as lent:
            pass
        case Borrowing(lent=lent):
            pass
        case _:
            return
    lent.borrowers.append(weakref.ref(borrower))
    fill = filling(borrower)
    assert fill is not None
    fill_by(borrower, Borrowing(lent, fill))


class Forkable(Holder, Protocol):
    """What is needed of the workers."""

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> object: ...


def fork(trunk: Forkable, branch: Forkable) -> None:
    """Have a new worker take on what another is, between steps; views are to be installed next."""
    if branch.tables or branch.epoch or trunk.has_pending:
        raise InternalError("only a new worker can go on from one without pending changes")
    branch.dictionary = trunk.dictionary
    branch.start_at(trunk.epoch)
    branch.tables_made = trunk.tables_made
    branch.reread = trunk.reread
    branch.saved = Forked(trunk)
    for name, table in trunk.tables.items():
        branch.create_table(name, table.schema, trunk.table_number(name))


class Forked(Saved):
    """What tables and operators keep, on its way from the worker where they are to another."""

    def __init__(self, trunk: Forkable) -> None:
        self._lenders = {trunk.table_number(name): table for name, table in trunk.tables.items()}
        operators = {one for view in trunk.views.values() for one in view.operators}
        self._views = trunk.views
        self._theirs = {one.place.fingerprint: one for one in operators}
        states = {name: state for name, one in self._theirs.items() if (state := _state(one))}
        pasts = {name: capture_memory(view.past) for name, view in trunk.views.items() if view.past}
        self._read = _reader(None if trunk.reread is None else trunk.reread())
        super().__init__({"tables": {}, "operators": states, "pasts": pasts}, self._read)

    def identities(self, name: str, plan: Plan) -> Identities | None:
        view = self._views.get(name)
        known, found = (None, None) if view is None or view.found is None else view.found
        return found if known is plan and isinstance(found, Identities) else None

    def fill(self, table: Table, number: int, take: Take, *, past: bool) -> None:
        if number in self._lenders:
            _fork_table(self._lenders[number], table, self._read)

    def restore(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        left = super().restore(operators)
        for operator in set(operators).difference(left):
            found = self._theirs.get(operator.place.fingerprint)
            if found is not None:
                _lend_all(found, operator)
        return left


def _reader(reread: Read | None) -> Read:
    """Gives arrays of what was captured, and by ``reread`` of what is stored."""

    def found(one: Any) -> Array:
        if isinstance(one, Part):
            return read(one)
        assert reread is not None
        return reread(one)

    return found


def _fork_table(table: Table, other: Table, read: Read) -> None:
    """A table with the rows and indexes of another, as long as neither changes them."""
    mine = [table.groups, *_indexes(table)]
    state = capture_table(table)
    restore_table(other, state, read)
    if table.past is not None:
        other.past = restored_table_past(capture_table_past(table.past), read)
    theirs = [other.groups, *_indexes(other)]
    for one, borrower in zip(mine, theirs, strict=True):
        if state_of(borrower) is not None:
            lend(one, borrower, _part(state, one, table))


def _indexes(table: Table) -> list[Any]:
    found = [table._key, table._bag, *table._unique, *table._lookups.values()]
    return [one for one in found if one is not None]


def _part(state: Any, one: object, table: Table) -> State:
    """Of a table's state that of one of its parts."""
    if one is table.groups:
        return state["groups"]
    if one is table._key:
        return state["key"]
    if one is table._bag:
        return state["bag"]
    for place, index in enumerate(table._unique):
        if one is index:
            return state["unique"][place]
    place = list(table._lookups.values()).index(one)  # type: ignore[arg-type]
    return state["lookups"][place]


def _state(operator: Operator) -> State | None:
    """What an operator keeps, its arrays where they are; of a trace copies of the few that change."""
    if isinstance(operator, STATELESS):
        return None
    try:
        state: Any = capture_operator(operator)
    except UnsavedError:
        return None
    return _kept(operator, state)


def _kept(operator: Operator, state: Any) -> State:
    match operator:
        case Arrange():
            return state if state_of(operator.spine) is not None else kept(state)
        case Loop():
            inner = {one.place.fingerprint: one for one in operator.body}
            return {"body": {name: _kept(inner[name], one) for name, one in state["body"].items()}}
        case _:
            return state


def _lend_all(one: Operator, borrower: Operator) -> None:
    """Lend what an operator keeps in place to one of another worker that was made of it."""
    match one, borrower:
        case Loop(), Loop():
            theirs = {inner.place.fingerprint: inner for inner in borrower.body}
            for inner in one.body:
                _lend_all(inner, theirs[inner.place.fingerprint])
        case _ if isinstance(one, TABLES) and isinstance(borrower, TABLES):
            if state_of(borrower.table) is not None:
                lend(one.table, borrower.table, capture_operator(one)["table"])
