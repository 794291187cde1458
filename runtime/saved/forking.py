"""A second worker that goes on from where one is, each by itself: what either writes to is copied before.

Both have the dictionary in common, to which strings are only added. Full row groups and batches never change
and are shared. An index, a table of groups, the live bits: of these the new worker has a dormant one, made of
the arrays that the old one has. The old one's is *lent* meanwhile, which is dormant too: whoever is asked for
anything first, the new one takes copies. So a fork costs what it takes to go through objects, and what is
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
from kpg.runtime.saved.dormant import filling, lull, state_of, wake
from kpg.runtime.saved.form import State, UnsavedError, kept, read
from kpg.runtime.saved.operators import STATELESS, capture_operator
from kpg.runtime.saved.pasts import capture_memory, capture_table_past, restored_table_past
from kpg.runtime.saved.tables import capture_table, restore_table
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


def settled(one: object) -> object:
    """An object with its own arrays in place: awake, or lent."""
    if state_of(one) is not None and not isinstance(filling(one), Lent):
        wake(one)
    return one


def lend(one: object, borrower: object, state: State) -> None:
    """Have an object be used no more before the borrower, which is dormant, has copies of its ``state``."""
    if state_of(borrower) is None:
        raise InternalError("who borrows must be dormant")
    if state_of(one) is None:
        lull(one, state, Lent())
    lent = filling(one)
    assert isinstance(lent, Lent)
    lent.borrowers.append(weakref.ref(borrower))


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
        super().__init__({"tables": {}, "operators": states, "pasts": pasts}, read)

    def identities(self, name: str, plan: Plan) -> Identities | None:
        view = self._views.get(name)
        known, found = (None, None) if view is None or view.found is None else view.found
        return found if known is plan and isinstance(found, Identities) else None

    def fill(self, table: Table, number: int, *, past: bool) -> None:
        if number in self._lenders:
            _fork_table(self._lenders[number], table)

    def restore(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        left = super().restore(operators)
        for operator in set(operators).difference(left):
            found = self._theirs.get(operator.place.fingerprint)
            if found is not None:
                _lend_all(found, operator)
        return left


def _fork_table(table: Table, other: Table) -> None:
    """A table with the rows and indexes of another, as long as neither changes them."""
    mine = [table.groups, *_indexes(table)]
    for one in mine:
        settled(one)
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
    _settle(operator)
    try:
        state: Any = capture_operator(operator)
    except UnsavedError:
        return None
    return _kept(operator, state)


def _settle(operator: Operator) -> None:
    match operator:
        case Arrange():
            settled(operator.spine)
        case Reduce() | Distinct() | Single() | LoopReduce() | LoopDistinct():
            settled(operator.table)
        case Loop():
            for inner in operator.body:
                _settle(inner)


def _kept(operator: Operator, state: Any) -> State:
    match operator:
        case Arrange():
            return kept(state)
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
