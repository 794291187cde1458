"""A worker as data, and a fork of a worker: both produce a new worker with the same state.

Operators are identified by their fingerprints. A restored worker has tables and no views. Operators of views
that are then installed take their state from the capture; operators without captured state are computed.

:func:`fork` creates a second worker; writes of either are invisible to the other. Both share the dictionary,
which only grows, and full row groups and batches, which are immutable. Indexes, group tables and live bits
are copied lazily: the new worker gets dormant objects, and the old worker's objects are *lent*. On the first
access from either side the new worker takes its copy. Objects that are still dormant since the database was
opened stay dormant in both. So a fork costs a walk over the objects, and each object is copied at most once.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol
from zlib import crc32

from kpg.runtime.checkpoint.captured_state import (
    Array,
    ArrayReader,
    FillFunction,
    Leaf,
    Part,
    State,
    UncapturableError,
    copy_mutable_parts,
    dormant_state,
    fill_of,
    make_dormant,
    set_fill,
    share_or_copy,
    wake,
)
from kpg.runtime.checkpoint.operator_state import (
    STATELESS,
    capture_operator,
    capture_operators,
    restore_operators,
    version_of_operator,
)
from kpg.runtime.checkpoint.table_state import (
    ShardAppender,
    capture_change_history,
    capture_dictionary,
    capture_table,
    capture_table_history,
    make_table_history,
    restore_change_history,
    restore_dictionary,
    restore_table,
    version_of_table,
)
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import Installation
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Capture
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.reduce import LoopReduce, Reduce, Single
from kpg.runtime.plan import Plan
from kpg.runtime.render.fingerprint import Identities
from kpg.runtime.tables.table import Table
from kpg.runtime.types import Schema

TABLES_PER_LEAF: Final = 32
"""Number of consecutive tables that are described together."""
OPERATOR_LEAVES: Final = 256
"""Number of leaves among which operators are distributed."""


class LocalView(Installation, Protocol):
    """An installation whose operators are in this process."""

    name: str
    operators: tuple[Operator, ...]
    history: Capture | None
    rendered_plan: tuple[Plan, object] | None


class RestorableTables(Protocol):
    """Interface of the tables of such a worker."""

    by_name: dict[str, Table]
    last_table_number: int
    keeps_history: bool
    pending_restore: "PendingRestore | None"

    @property
    def has_pending(self) -> bool: ...
    def table_number(self, table: str) -> int: ...


class RestorableWorker(Protocol):
    """Interface of a worker whose state is captured and restored."""

    dictionary: Dictionary
    epoch: int
    make_reader: Callable[[], ArrayReader] | None
    """Makes another reader of the stored state from which this worker was restored."""

    @property
    def tables(self) -> RestorableTables: ...
    @property
    def views(self) -> Mapping[str, LocalView]: ...
    def start_at(self, epoch: int) -> None: ...
    def keep_changes(self, installation: Installation) -> None: ...


class PendingRestore:
    """State of tables and operators that is handed out as they are created in a new worker."""

    def __init__(self, state: Any, read: ArrayReader) -> None:
        self._tables = state["tables"]
        self._operators = state["operators"]
        self._view_histories = state["pasts"]
        self._read = read
        self._restored_tables: set[Table] = set()
        self.recomputed: list[str] = []
        """Descriptions of operators without captured state, which had to be computed."""
        self.versions: dict[str, object] = {}
        """Versions of tables (by number) and operators right after their restore."""

    def fill_table(
        self, table: Table, number: int, append_shards: ShardAppender, *, with_history: bool
    ) -> None:
        """Restore a new table from the state of that number, if there is one; on request with its history."""
        state = self._tables.get(str(number))
        if state is not None:
            restore_table(table, state, self._read, append_shards)
            self._restored_tables.add(table)
            # Rows that were in shards and are in this process now have to be described again.
            is_unchanged = "sharded" not in state["groups"] or table.shard_ranges
            self.versions[str(number)] = version_of_table(table) if is_unchanged else None
            if with_history and state["past"] is not None:
                table.history = make_table_history(state["past"], self._read)

    def has_restored(self, table: Table, uniques: Sequence[str]) -> bool:
        """Return whether a table was restored; if so, keep only unique constraints with these names."""
        if table in self._restored_tables:
            table._unique = [index for index in table._unique if index.name in uniques]
        return table in self._restored_tables

    def has_restored_unique(self, table: Table, name: str) -> bool:
        """Return whether a table was restored with a unique constraint of that name."""
        return table in self._restored_tables and any(index.name == name for index in table._unique)

    def restore(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        """Restore new operators; return those without captured state, which have to be computed."""
        missing = restore_operators(operators, self._operators, self._read)
        self.recomputed += [operator.place.description for operator in missing]
        for operator in set(operators).difference(missing):
            self.versions[operator.place.fingerprint] = version_of_operator(operator)
        return missing

    def identities(self, name: str, plan: Plan) -> Identities | None:
        """Return the identities that another worker has computed for the view's plan; None if unknown."""
        return None

    def restore_history(self, worker: RestorableWorker, installation: LocalView) -> None:
        """Restore the history of a view, if it had one."""
        state = self._view_histories.get(installation.name)
        if state is not None:
            worker.keep_changes(installation)
            assert installation.history is not None
            restore_change_history(installation.history, state, self._read)


def capture(worker: RestorableWorker) -> State:
    """Return the state of a worker between steps.

    Raises:
        InternalError: If changes are pending.
    """
    if worker.tables.has_pending:
        raise InternalError("a state with pending changes cannot be captured")
    numbered = {str(worker.tables.table_number(name)): table for name, table in worker.tables.by_name.items()}
    return _make_root(worker, _tables(numbered), capture_operators(tuple(sorted(_operators(worker)))))


def capture_leaves(worker: RestorableWorker) -> State:
    """Return the state as :func:`capture`, with tables and operators in leaves captured on demand."""
    if worker.tables.has_pending:
        raise InternalError("a state with pending changes cannot be captured")
    tables: dict[str, dict[str, Table]] = {}
    for name, table in worker.tables.by_name.items():
        number = worker.tables.table_number(name)
        tables.setdefault(str(number // TABLES_PER_LEAF), {})[str(number)] = table
    operators: dict[str, list[Operator]] = {}
    for operator in sorted(_operators(worker)):
        if not isinstance(operator, STATELESS):
            part = crc32(operator.place.fingerprint.encode()) % OPERATOR_LEAVES
            operators.setdefault(str(part), []).append(operator)
    return _make_root(
        worker,
        {
            name: Leaf(
                {number: version_of_table(one) for number, one in members.items()}, partial(_tables, members)
            )
            for name, members in tables.items()
        },
        {
            name: Leaf(
                {one.place.fingerprint: version_of_operator(one) for one in members},
                partial(capture_operators, tuple(members)),
            )
            for name, members in operators.items()
        },
    )


def _operators(worker: RestorableWorker) -> set[Operator]:
    return {operator for view in worker.views.values() for operator in view.operators}


def _tables(tables: Mapping[str, Table]) -> State:
    return {number: capture_table(table) for number, table in tables.items()}


def _make_root(worker: RestorableWorker, tables: State, operators: State) -> State:
    return {
        "epoch": worker.epoch,
        "tables made": worker.tables.last_table_number,
        "dictionary": capture_dictionary(worker.dictionary),
        "tables": tables,
        "operators": operators,
        "pasts": {
            name: capture_change_history(view.history) for name, view in worker.views.items() if view.history
        },
    }


def restore(
    worker: RestorableWorker, state: Any, read: ArrayReader, make_reader: Callable[[], ArrayReader]
) -> None:
    """Restore a new worker: tables when they are created, operators when they are installed.

    The caller sets ``worker.tables.pending_restore`` to None when all of them exist.

    Args:
        read: Returns the arrays of the state.
        make_reader: Makes another such reader, for a branch.
    """
    if worker.tables.by_name or worker.epoch:
        raise InternalError("a state can be restored only in a new worker")
    restore_dictionary(worker.dictionary, state["dictionary"], read)
    worker.start_at(state["epoch"])
    worker.tables.last_table_number = state["tables made"]
    worker.make_reader = make_reader
    worker.tables.pending_restore = PendingRestore(
        state if worker.tables.keeps_history else {**state, "pasts": {}}, read
    )


TABLE_OPERATORS = (Reduce, Single, LoopReduce)
"""Operators with a table of groups."""


class Lender:
    """Fill function of a lent object: first wakes the objects that will copy its arrays."""

    def __init__(self) -> None:
        self.borrowers: list[weakref.ref[object]] = []

    def __call__(self, instance: object, state: State) -> None:
        borrowers, self.borrowers = self.borrowers, []
        for borrower in borrowers:
            instance = borrower()
            if instance is not None:
                wake(instance)


class Borrower:
    """Fill function of an object that copies the arrays of a lent one."""

    def __init__(self, lender: Lender, fill: FillFunction) -> None:
        self.lender = lender
        self._fill = fill

    def __call__(self, instance: object, state: State) -> None:
        self._fill(instance, state)


def lend(instance: object, borrower: object, state: State) -> None:
    """Make the dormant ``borrower`` copy an object's ``state`` before the object is used again.

    If the object is dormant and borrows itself, the borrower borrows from the same lender. If it is dormant
    with
    stored state, both restore that.
    """
    if dormant_state(borrower) is None:
        raise InternalError("only a dormant object can borrow")
    if dormant_state(instance) is None:
        make_dormant(instance, state, Lender())
    match fill_of(instance):
        case Lender() as lender:
            pass
        case Borrower(lender=lender):
            pass
        case _:
            return
    lender.borrowers.append(weakref.ref(borrower))
    fill = fill_of(borrower)
    assert fill is not None
    set_fill(borrower, Borrower(lender, fill))


class ForkableWorker(RestorableWorker, Protocol):
    """Interface of the workers of a fork."""

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> object: ...


def fork(trunk: ForkableWorker, branch: ForkableWorker) -> None:
    """Initialize a new worker with the state of another, between steps; views are installed afterwards."""
    if branch.tables.by_name or branch.epoch or trunk.tables.has_pending:
        raise InternalError("a fork needs a new worker and an original without pending changes")
    branch.start_at(trunk.epoch)
    branch.tables.last_table_number = trunk.tables.last_table_number
    branch.make_reader = trunk.make_reader
    branch.tables.pending_restore = PendingFork(trunk)
    for name, table in trunk.tables.by_name.items():
        branch.create_table(name, table.schema, trunk.tables.table_number(name))


class PendingFork(PendingRestore):
    """State of tables and operators of one worker, handed out as they are created in its fork."""

    def __init__(self, trunk: ForkableWorker) -> None:
        self._tables_by_number = {
            trunk.tables.table_number(name): table for name, table in trunk.tables.by_name.items()
        }
        operators = {one for view in trunk.views.values() for one in view.operators}
        self._views = trunk.views
        self._operators_by_fingerprint = {one.place.fingerprint: one for one in operators}
        states = {
            name: state
            for name, one in self._operators_by_fingerprint.items()
            if (state := _capture_shared(one))
        }
        histories = {
            name: capture_change_history(view.history) for name, view in trunk.views.items() if view.history
        }
        self._read = _make_reader(None if trunk.make_reader is None else trunk.make_reader())
        super().__init__({"tables": {}, "operators": states, "pasts": histories}, self._read)

    def identities(self, name: str, plan: Plan) -> Identities | None:
        view = self._views.get(name)
        known_plan, identities = (
            (None, None) if view is None or view.rendered_plan is None else view.rendered_plan
        )
        return identities if known_plan is plan and isinstance(identities, Identities) else None

    def fill_table(
        self, table: Table, number: int, append_shards: ShardAppender, *, with_history: bool
    ) -> None:
        if number in self._tables_by_number:
            _fork_table(self._tables_by_number[number], table, self._read)

    def restore(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        missing = super().restore(operators)
        for operator in set(operators).difference(missing):
            original = self._operators_by_fingerprint.get(operator.place.fingerprint)
            if original is not None:
                _lend_all(original, operator)
        return missing


def _make_reader(read_stored: ArrayReader | None) -> ArrayReader:
    """Return a reader of captured arrays that uses ``read_stored`` for stored ones."""

    def read_array(location: Any) -> Array:
        if isinstance(location, Part):
            return share_or_copy(location)
        assert read_stored is not None
        return read_stored(location)

    return read_array


def _fork_table(table: Table, branch_table: Table, read: ArrayReader) -> None:
    """Restore a table that shares rows and indexes with another until either changes them."""
    originals = [table.groups, *_indexes(table)]
    state = capture_table(table)
    restore_table(branch_table, state, read)
    if table.history is not None:
        branch_table.history = make_table_history(capture_table_history(table.history), read)
    borrowers = [branch_table.groups, *_indexes(branch_table)]
    for one, borrower in zip(originals, borrowers, strict=True):
        if dormant_state(borrower) is not None:
            lend(one, borrower, _state_of_part(state, one, table))


def _indexes(table: Table) -> list[Any]:
    indexes = [table._key, table._bag, *table._unique, *table._lookups.values()]
    return [one for one in indexes if one is not None]


def _state_of_part(state: Any, part: object, table: Table) -> State:
    """Return the state of one part of a table."""
    if part is table.groups:
        return state["groups"]
    if part is table._key:
        return state["key"]
    if part is table._bag:
        return state["bag"]
    for place, index in enumerate(table._unique):
        if part is index:
            return state["unique"][place]
    place = list(table._lookups.values()).index(part)  # type: ignore[arg-type]
    return state["lookups"][place]


def _capture_shared(operator: Operator) -> State | None:
    """Return an operator's state with shared arrays, except for copies of a trace's mutable arrays."""
    if isinstance(operator, STATELESS):
        return None
    try:
        state: Any = capture_operator(operator)
    except UncapturableError:
        return None
    return _copy_trace_parts(operator, state)


def _copy_trace_parts(operator: Operator, state: Any) -> State:
    match operator:
        case Arrange():
            return state if dormant_state(operator.spine) is not None else copy_mutable_parts(state)
        case Loop():
            inner = {one.place.fingerprint: one for one in operator.body}
            return {
                "body": {name: _copy_trace_parts(inner[name], one) for name, one in state["body"].items()}
            }
        case _:
            return state


def _lend_all(operator: Operator, borrower: Operator) -> None:
    """Lend the tables of an operator to its copy in another worker."""
    match operator, borrower:
        case Loop(), Loop():
            borrowers = {inner.place.fingerprint: inner for inner in borrower.body}
            for inner in operator.body:
                _lend_all(inner, borrowers[inner.place.fingerprint])
        case _ if isinstance(operator, TABLE_OPERATORS) and isinstance(borrower, TABLE_OPERATORS):
            if dormant_state(borrower.table) is not None:
                lend(operator.table, borrower.table, capture_operator(operator)["table"])
