"""A second worker that goes on from where one is, each by itself: what either writes to is copied before.

Both have the dictionary in common, to which strings are only added. Full row groups and batches never change
and are shared. An index, a table of groups, the live bits: of these the new worker has a dormant one, made of
the arrays that the old one has. The old one's is *lent* meanwhile, which is dormant too: whoever is asked for
anything first, the new one takes copies. What nobody has asked for since it was opened sleeps on in both, and
each reads it where it is stored. So a fork costs what it takes to go through objects, and what is
used afterwards is copied once, object by object; nothing is if the new worker is given up.
"""

import weakref
from typing import Any, Protocol

from kpg.runtime.data.table import Table
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.history import LoopDistinct, LoopReduce
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.reduce import Distinct, Reduce, Single
from kpg.runtime.plan import Plan
from kpg.runtime.render.identity import Identities
from kpg.runtime.saved.dormant import Fill, fill_by, filling, lull, state_of, wake
from kpg.runtime.saved.form import Array, Part, Read, State, UnsavedError, kept, read
from kpg.runtime.saved.operators import STATELESS, capture_operator
from kpg.runtime.saved.pasts import capture_memory, capture_table_past, restored_table_past
from kpg.runtime.saved.tables import Take, capture_table, restore_table
from kpg.runtime.saved.worker import Holder, Saved
from kpg.runtime.types import Schema

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
