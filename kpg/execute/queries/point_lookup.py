"""Point lookups: small plans that run without a dataflow, on the filtered and mapped rows of one relation.

The relation is a table or a view. A row found by key, or a small relation, is read in place, with the plan's
slots as additional columns. Larger relations and joins are installed as dataflows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.parse.parameters import Slot, slot_of
from kpg.runtime import plan as ir
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Literal, Scalar, children, transform
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import NULL, is_loose
from kpg.session.engine import Engine

Words = NDArray[np.int64]
FEW: Final = 4096
"""So many rows of a relation are read here; more of them are for operators, which take them in pieces."""
EQUALITIES: Final = frozenset({"eq", "ne"})
ABSENT: Final = -1
"""The word of a text that nothing has, where it is only compared with others: no text has this code."""


@dataclass(frozen=True, slots=True)
class Direct:
    """How to answer a plan: ``mfp`` over the rows of a relation, with a column more for each of ``slots``.

    ``key``: the columns of a table, or the first ones of a view, that have to be equal to constants;
    ``equal``: any columns of a view.
    ``compared``: the slots of texts that are told equal or not, and nothing else.
    """

    source: ir.Source | ir.Import | ir.Constant
    mfp: ir.Mfp | None
    slots: tuple[Slot, ...]
    compared: frozenset[Slot] = frozenset()
    columns: tuple[int, ...] = ()
    key: tuple[Literal, ...] = ()
    equal: tuple[tuple[int, Literal], ...] = ()


def direct(engine: Engine, plan: ir.Plan, catalog: Catalog) -> Direct | None:
    """How to answer a plan here; None if it takes more."""
    node = plan.nodes[plan.output]
    if isinstance(node, ir.Arrange):
        node = plan.nodes[node.input]
    mfp: ir.Mfp | None = None
    if isinstance(node, ir.Linear):
        mfp, node = node.mfp, plan.nodes[node.input]
    if isinstance(node, ir.Source):
        columns, key = _table_key(mfp, catalog.table(node.table))
        return Direct(node, *_with_columns(mfp, 1), columns, key)
    if isinstance(node, ir.Import) and node.view in engine.views:
        made, known = engine.views.plan_of(node.view), _equal_columns(mfp)
        found_by = 0 if made is None else _found_by(made, len(node.types))
        key = _view_key(known)[:found_by]
        equal = () if found_by else tuple((at, one) for at, one in known.items() if not is_loose(one.type))
        return Direct(node, *_with_columns(mfp, len(node.types)), tuple(range(len(key))), key, equal)
    if isinstance(node, ir.Constant) and node.rows == ((0,),):
        return Direct(node, *_with_columns(mfp, 1))
    return None


def _found_by(plan: ir.Plan, width: int) -> int:
    """By how many first columns, at most, a view's rows are found without looking at others."""
    node = plan.nodes[plan.output]
    if isinstance(node, ir.Arrange):
        return width
    if isinstance(node, ir.Linear) and not node.mfp.predicates:
        first, node = node.mfp.outputs[0], plan.nodes[node.input]
        return int(isinstance(node, ir.Ego) and isinstance(first, Column) and first.index == 0)
    return int(isinstance(node, ir.Ego))


def _with_columns(mfp: ir.Mfp | None, width: int) -> tuple[ir.Mfp | None, tuple[Slot, ...], frozenset[Slot]]:
    """The mfp with columns in the place of its slots, these, and those of texts that are only compared."""
    slots: dict[Slot, int] = {}

    def column(scalar: Scalar) -> Scalar:
        slot = slot_of(scalar) if isinstance(scalar, Literal) else None
        return scalar if slot is None else Column(width + slots.setdefault(slot, len(slots)), scalar.type)

    if mfp is None:
        return None, (), frozenset()
    predicates = tuple(transform(one, column) for one in mfp.predicates)
    outputs = tuple(transform(one, column) for one in mfp.outputs)
    found = ir.Mfp(predicates, outputs)
    more = _more_than_compared(found)
    return found, tuple(slots), frozenset(slot for slot, place in slots.items() if width + place not in more)


def _more_than_compared(mfp: ir.Mfp) -> set[int]:
    """The columns of which more is asked than to which texts they are equal."""
    more: set[int] = set()
    stack = [*mfp.predicates, *mfp.outputs]
    while stack:
        scalar = stack.pop()
        below = children(scalar)
        if isinstance(scalar, Column):
            more.add(scalar.index)
        elif isinstance(scalar, Call) and scalar.function in EQUALITIES:
            stack.extend(one for one in below if not (isinstance(one, Column) and one.type.is_text))
        else:
            stack.extend(below)
    return more


def _equalities(mfp: ir.Mfp | None) -> Iterator[tuple[Scalar, Literal]]:
    """What every row that passes has equal to a constant."""
    for predicate in mfp.predicates if mfp is not None else ():
        if isinstance(predicate, Call) and predicate.function == "eq":
            left, right = predicate.args
            if isinstance(left, Literal):
                left, right = right, left
            if isinstance(right, Literal) and right.value is not None and left.type == right.type:
                yield left, right


def _table_key(mfp: ir.Mfp | None, entry: TableEntry) -> tuple[tuple[int, ...], tuple[Literal, ...]]:
    """The columns of a key that are equal to constants, and these; nothing without such a key."""
    known: dict[int, Literal] = {}
    for scalar, constant in _equalities(mfp):
        if isinstance(scalar, Fetch) and scalar.table == entry.name and isinstance(scalar.rowid, Column):
            known.setdefault(scalar.column, constant)
    names = [name.lower() for name in entry.schema.names]
    uniques = [tuple(names.index(name.lower()) for name in one.columns) for one in entry.constraints.uniques]
    for columns in (entry.schema.primary_key, *uniques):
        if columns and all(column in known for column in columns):
            return columns, tuple(known[column] for column in columns)
    return (), ()


def _equal_columns(mfp: ir.Mfp | None) -> dict[int, Literal]:
    """The columns that are equal to constants."""
    known: dict[int, Literal] = {}
    for scalar, constant in _equalities(mfp):
        if isinstance(scalar, Column):
            known.setdefault(scalar.index, constant)
    return known


def _view_key(known: Mapping[int, Literal]) -> tuple[Literal, ...]:
    found: list[Literal] = []
    while len(found) in known:
        found.append(known[len(found)])
    return tuple(found)


def rows(engine: Engine, plan: Direct, values: Mapping[Slot, Literal]) -> tuple[Words, Words] | None:
    """The rows of the answer and their multiplicities, in the order of a trace; None if there are many."""
    words = Constants(values, engine.executor.dictionary)
    equal = {column: words.sought(literal) for column, literal in plan.equal}
    found = _given(engine, plan, [words.sought(literal) for literal in plan.key], equal)
    if found is None:
        return None
    data, diff = found
    if plan.mfp is not None:
        count = data.shape[1]
        if plan.slots:
            wide = np.empty((data.shape[0] + len(plan.slots), count), np.int64)
            wide[: data.shape[0]] = data
            for place, slot in enumerate(plan.slots if count else (), data.shape[0]):
                wide[place] = (words.sought if slot in plan.compared else words.of)(values[slot])
            data = wide
        data, kept = engine.executor.evaluate(plan.mfp, data)
        diff = diff if kept is None else diff[kept]
    if data.shape[1] > 1:
        contents = Updates.of(np.ascontiguousarray(data), (0,), diff).consolidate()
        return contents.data, contents.diffs()
    return data, diff


def _given(
    engine: Engine, plan: Direct, key: Sequence[int], equal: Mapping[int, int]
) -> tuple[Words, Words] | None:
    """The rows that the mfp is over: of a table their rowids."""
    executor, source = engine.executor, plan.source
    if any(word == ABSENT and one.type.is_interned for word, one in zip(key, plan.key, strict=True)):
        width = len(source.types) if isinstance(source, ir.Import) else 1
        return np.empty((width, 0), np.int64), np.empty(0, np.int64)
    if isinstance(source, ir.Source):
        if key:
            rowids = _found(engine, source.table, plan.columns, np.array(key, np.int64).reshape(-1, 1))
        elif executor.count(source.table) > FEW:
            return None
        else:
            rowids = executor.rowids(source.table)
        return rowids.reshape(1, -1), np.ones(rowids.shape[0], np.int64)
    if isinstance(source, ir.Import):
        installed = engine.views[source.view].installed
        if key:
            return installed.matching(key)
        return None if installed.size > FEW else installed.rows(equal)
    return np.zeros((1, 1), np.int64), np.ones(1, np.int64)


def _found(engine: Engine, table: str, columns: tuple[int, ...], keys: Words) -> Words:
    """The rowids of the row with a key, if there is one."""
    primary = columns == engine.catalog.table(table).schema.primary_key
    executor = engine.executor
    found = executor.find(table, keys) if primary else executor.find_unique(table, columns, keys)
    return found[found >= 0]


class Constants:
    """The words of constants, those of slots by their values."""

    __slots__ = ("_dictionary", "_values")

    def __init__(self, values: Mapping[Slot, Literal], dictionary: Dictionary) -> None:
        self._values = values
        self._dictionary = dictionary

    def of(self, literal: Literal) -> int:
        """The word of a constant, of a slot that of its value."""
        value = self._value(literal)
        if value is None:
            return NULL
        return self._dictionary.code(value) if isinstance(value, str) else value

    def sought(self, literal: Literal) -> int:
        """The word of a constant that is only looked for: a text that nothing has is not kept for it."""
        value = self._value(literal)
        if not isinstance(value, str):
            return NULL if value is None else value
        code = self._dictionary.lookup(value)
        return ABSENT if code is None else code

    def _value(self, literal: Literal) -> int | str | None:
        slot = slot_of(literal)
        return literal.value if slot is None else self._values[slot].value
