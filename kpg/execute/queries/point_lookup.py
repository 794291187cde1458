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
MAX_ROWS: Final = 4096
"""Relations of more rows are left to operators, which process them in chunks."""
EQUALITIES: Final = frozenset({"eq", "ne"})
ABSENT: Final = -1
"""Stands for a text that no row has, in comparisons: no text has this code."""


@dataclass(frozen=True, slots=True)
class PointLookup:
    """A plan that runs in place: ``mfp`` over the rows of a relation, with one more column per slot.

    ``key`` are the constants for ``columns``: a key of a table, or the first columns of a view.
    ``equal`` are constants for any columns of a view. ``compared_slots`` are text slots that are only
    compared for equality.
    """

    source: ir.Source | ir.Import | ir.Constant
    mfp: ir.Mfp | None
    slots: tuple[Slot, ...]
    compared_slots: frozenset[Slot] = frozenset()
    columns: tuple[int, ...] = ()
    key: tuple[Literal, ...] = ()
    equal: tuple[tuple[int, Literal], ...] = ()


def make_point_lookup(engine: Engine, plan: ir.Plan, catalog: Catalog) -> PointLookup | None:
    """Return the point lookup of a plan; None if it needs a dataflow."""
    node = plan.nodes[plan.output]
    if isinstance(node, ir.Arrange):
        node = plan.nodes[node.input]
    mfp: ir.Mfp | None = None
    if isinstance(node, ir.Linear):
        mfp, node = node.mfp, plan.nodes[node.input]
    if isinstance(node, ir.Source):
        columns, key = _table_key(mfp, catalog.table(node.table))
        return PointLookup(node, *_replace_slots(mfp, 1), columns, key)
    if isinstance(node, ir.Import) and node.view in engine.views:
        view_plan, constants = engine.views.plan_of(node.view), _equal_columns(mfp)
        prefix = 0 if view_plan is None else _lookup_prefix(view_plan, len(node.types))
        key = _view_key(constants)[:prefix]
        equal = () if prefix else tuple((at, one) for at, one in constants.items() if not is_loose(one.type))
        return PointLookup(node, *_replace_slots(mfp, len(node.types)), tuple(range(len(key))), key, equal)
    if isinstance(node, ir.Constant) and node.rows == ((0,),):
        return PointLookup(node, *_replace_slots(mfp, 1))
    return None


def _lookup_prefix(plan: ir.Plan, width: int) -> int:
    """Return by how many leading columns a view's rows can be looked up."""
    node = plan.nodes[plan.output]
    if isinstance(node, ir.Arrange):
        return width
    if isinstance(node, ir.Linear) and not node.mfp.predicates:
        first, node = node.mfp.outputs[0], plan.nodes[node.input]
        return int(isinstance(node, ir.Ego) and isinstance(first, Column) and first.index == 0)
    return int(isinstance(node, ir.Ego))


def _replace_slots(mfp: ir.Mfp | None, width: int) -> tuple[ir.Mfp | None, tuple[Slot, ...], frozenset[Slot]]:
    """Return the mfp with slots replaced by columns, the slots, and those that are only compared."""
    slots: dict[Slot, int] = {}

    def column(scalar: Scalar) -> Scalar:
        slot = slot_of(scalar) if isinstance(scalar, Literal) else None
        return scalar if slot is None else Column(width + slots.setdefault(slot, len(slots)), scalar.type)

    if mfp is None:
        return None, (), frozenset()
    predicates = tuple(transform(expression, column) for expression in mfp.predicates)
    outputs = tuple(transform(expression, column) for expression in mfp.outputs)
    found = ir.Mfp(predicates, outputs)
    more = _used_beyond_equality(found)
    return found, tuple(slots), frozenset(slot for slot, place in slots.items() if width + place not in more)


def _used_beyond_equality(mfp: ir.Mfp) -> set[int]:
    """Return the columns that are used other than in equality comparisons of texts."""
    columns: set[int] = set()
    stack = [*mfp.predicates, *mfp.outputs]
    while stack:
        scalar = stack.pop()
        below = children(scalar)
        if isinstance(scalar, Column):
            columns.add(scalar.index)
        elif isinstance(scalar, Call) and scalar.function in EQUALITIES:
            stack.extend(child for child in below if not (isinstance(child, Column) and child.type.is_text))
        else:
            stack.extend(below)
    return columns


def _equalities(mfp: ir.Mfp | None) -> Iterator[tuple[Scalar, Literal]]:
    """Yield the scalars that every passing row has equal to a constant."""
    for predicate in mfp.predicates if mfp is not None else ():
        if isinstance(predicate, Call) and predicate.function == "eq":
            left, right = predicate.args
            if isinstance(left, Literal):
                left, right = right, left
            if isinstance(right, Literal) and right.value is not None and left.type == right.type:
                yield left, right


def _table_key(mfp: ir.Mfp | None, entry: TableEntry) -> tuple[tuple[int, ...], tuple[Literal, ...]]:
    """Return the columns of a key that are equal to constants, and these constants; empty without one."""
    constants: dict[int, Literal] = {}
    for scalar, constant in _equalities(mfp):
        if isinstance(scalar, Fetch) and scalar.table == entry.name and isinstance(scalar.rowid, Column):
            constants.setdefault(scalar.column, constant)
    names = [name.lower() for name in entry.schema.names]
    uniques = [
        tuple(names.index(name.lower()) for name in unique.columns) for unique in entry.constraints.uniques
    ]
    for columns in (entry.schema.primary_key, *uniques):
        if columns and all(column in constants for column in columns):
            return columns, tuple(constants[column] for column in columns)
    return (), ()


def _equal_columns(mfp: ir.Mfp | None) -> dict[int, Literal]:
    """Return the columns that are equal to constants."""
    constants: dict[int, Literal] = {}
    for scalar, constant in _equalities(mfp):
        if isinstance(scalar, Column):
            constants.setdefault(scalar.index, constant)
    return constants


def _view_key(constants: Mapping[int, Literal]) -> tuple[Literal, ...]:
    found: list[Literal] = []
    while len(found) in constants:
        found.append(constants[len(found)])
    return tuple(found)


def run_point_lookup(
    engine: Engine, plan: PointLookup, values: Mapping[Slot, Literal]
) -> tuple[Words, Words] | None:
    """Return rows and multiplicities, in the order of a trace; None if the relation is too large."""
    words = Constants(values, engine.executor.dictionary)
    equal = {column: words.lookup_word(literal) for column, literal in plan.equal}
    found = _source_rows(engine, plan, [words.lookup_word(literal) for literal in plan.key], equal)
    if found is None:
        return None
    data, diff = found
    if plan.mfp is not None:
        count = data.shape[1]
        if plan.slots:
            wide = np.empty((data.shape[0] + len(plan.slots), count), np.int64)
            wide[: data.shape[0]] = data
            for place, slot in enumerate(plan.slots if count else (), data.shape[0]):
                wide[place] = (words.lookup_word if slot in plan.compared_slots else words.word)(values[slot])
            data = wide
        data, kept = engine.executor.evaluate(plan.mfp, data)
        diff = diff if kept is None else diff[kept]
    if data.shape[1] > 1:
        contents = Updates.of(np.ascontiguousarray(data), (0,), diff).consolidate()
        return contents.data, contents.diffs()
    return data, diff


def _source_rows(
    engine: Engine, plan: PointLookup, key: Sequence[int], equal: Mapping[int, int]
) -> tuple[Words, Words] | None:
    """Return the rows of the relation; for a table, the rowids."""
    executor, source = engine.executor, plan.source
    if any(word == ABSENT and one.type.is_interned for word, one in zip(key, plan.key, strict=True)):
        width = len(source.types) if isinstance(source, ir.Import) else 1
        return np.empty((width, 0), np.int64), np.empty(0, np.int64)
    if isinstance(source, ir.Source):
        if key:
            rowids = _find_rowids(engine, source.table, plan.columns, np.array(key, np.int64).reshape(-1, 1))
        elif executor.tables.count(source.table) > MAX_ROWS:
            return None
        else:
            rowids = executor.tables.rowids(source.table)
        return rowids.reshape(1, -1), np.ones(rowids.shape[0], np.int64)
    if isinstance(source, ir.Import):
        installed = engine.views[source.view].installation
        if key:
            return installed.rows_with_prefix(key)
        return None if installed.size > MAX_ROWS else installed.rows(equal)
    return np.zeros((1, 1), np.int64), np.ones(1, np.int64)


def _find_rowids(engine: Engine, table: str, columns: tuple[int, ...], keys: Words) -> Words:
    primary = columns == engine.tables.by_name[table].schema.primary_key
    executor = engine.executor
    found = (
        executor.tables.find(table, keys) if primary else executor.tables.find_unique(table, columns, keys)
    )
    return found[found >= 0]


class Constants:
    """Words of constants and of the values of slots."""

    __slots__ = ("_dictionary", "_values")

    def __init__(self, values: Mapping[Slot, Literal], dictionary: Dictionary) -> None:
        self._values = values
        self._dictionary = dictionary

    def word(self, literal: Literal) -> int:
        """Return the word of a constant or of a slot's value."""
        value = self._value(literal)
        if value is None:
            return NULL
        return self._dictionary.code(value) if isinstance(value, str) else value

    def lookup_word(self, literal: Literal) -> int:
        """Return the word of a constant to look up: unknown texts are not added to the dictionary."""
        value = self._value(literal)
        if not isinstance(value, str):
            return NULL if value is None else value
        code = self._dictionary.lookup(value)
        return ABSENT if code is None else code

    def _value(self, literal: Literal) -> int | str | None:
        slot = slot_of(literal)
        return literal.value if slot is None else self._values[slot].value
