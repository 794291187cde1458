"""A worker as data: its dictionary, tables and operators; and a new worker with all of it again.

Operators are known by what they compute. A restored worker has tables and no views; whatever is then
installed takes from the state what its operators kept, and computes what is not there.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol
from zlib import crc32

from kpg.runtime.data.table import Table
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import Installation
from kpg.runtime.installed import Installed
from kpg.runtime.plan import Plan
from kpg.runtime.render.identity import Identities
from kpg.runtime.saved.form import Read, State
from kpg.runtime.saved.leaves import Leaf
from kpg.runtime.saved.operators import STATELESS, captured, restore_known, version_of_operator
from kpg.runtime.saved.pasts import capture_memory, restore_memory, restored_table_past
from kpg.runtime.saved.tables import (
    Take,
    capture_dictionary,
    capture_table,
    restore_dictionary,
    restore_table,
    version_of_table,
)

TABLES: Final = 32
"""So many tables that follow each other are described together."""
OPERATORS: Final = 256
"""Operators are described in so many parts."""


class Holder(Protocol):
    """What is needed of a worker."""

    dictionary: Dictionary
    tables: dict[str, Table]
    views: dict[str, Installed]
    epoch: int
    tables_made: int
    remembering: bool
    saved: "Saved | None"
    reread: Callable[[], Read] | None
    """Makes a reader for one more worker of what this one was restored of."""

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

    def remember(self, worker: Holder, view: Installed) -> None:
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
        tables.setdefault(str(number // TABLES), {})[str(number)] = table
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
