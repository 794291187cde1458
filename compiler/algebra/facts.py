"""Logical properties of a relation: unique keys, nullability, and whether it has at most one row.

``let_values`` maps the lets in scope to their values, and ``recursive`` maps the ids of recursive
lets to their LetRec. Each property holds for the collection that the relation denotes. Its
multiplicities are not negative, so a union with a negated input is contained in the union of its
other inputs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import can_be_null, null_rejecting_columns
from kpg.compiler.algebra.traverse import width
from kpg.runtime.functions import lookup_aggregate, window_function
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar, children

Key = frozenset[int]
LetValues = Mapping[str, Rel]

MAX_KEYS: Final = 8
"""Maximum number of unique keys per relation; the smallest are kept.

A join has one key for each combination of its inputs' keys, and few are ever read.
"""


def unique_keys(rel: Rel, let_values: LetValues | None = None) -> tuple[Key, ...]:
    """Return the minimal column sets on which no two rows agree, smallest first.

    Duplicate rows agree on all columns. The empty set means that the relation has at most one row.
    """
    return Facts(let_values or {}).unique_keys(rel)


def at_most_one_row(rel: Rel, let_values: LetValues | None = None) -> bool:
    """Return whether the relation never has two rows."""
    return Facts(let_values or {}).at_most_one_row(rel)


def is_unique(rel: Rel, columns: Iterable[int], let_values: LetValues | None = None) -> bool:
    """Return whether no two rows agree on ``columns``."""
    chosen = frozenset(columns)
    return any(key <= chosen for key in unique_keys(rel, let_values))


def nullable(rel: Rel, let_values: LetValues | None = None) -> tuple[bool, ...]:
    """Return for each column whether it can be NULL."""
    return Facts(let_values or {}).nullable(rel)


@dataclass(slots=True, eq=False)
class Facts:
    """Facts about relations in one scope of lets, each computed once."""

    let_values: LetValues
    recursive: Mapping[str, algebra.LetRec] = field(default_factory=dict)
    assumed_nullable: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    """Columns of recursive relations that are assumed nullable during the fixed-point iteration."""
    _keys: dict[Rel, tuple[Key, ...]] = field(default_factory=dict)
    _nullable: dict[Rel, tuple[bool, ...]] = field(default_factory=dict)
    _recursive_flags: dict[str, tuple[bool, ...]] = field(default_factory=dict)

    def unique_keys(self, rel: Rel) -> tuple[Key, ...]:
        """Return the relation's minimal unique keys, as the module's :func:`unique_keys`."""
        known = self._keys.get(rel)
        if known is None:
            known = self._keys[rel] = _minimal_keys(self._keys_of(rel))
        return known

    def at_most_one_row(self, rel: Rel) -> bool:
        """Return whether the relation never has two rows."""
        return frozenset() in self.unique_keys(rel)

    def nullable(self, rel: Rel) -> tuple[bool, ...]:
        """Return for each column whether it can be NULL."""
        known = self._nullable.get(rel)
        if known is None:
            known = self._nullable[rel] = self._nullable_of(rel)
        return known

    def _enter_let(self, let: algebra.Let) -> "Facts":
        """Return the facts for the let's body."""
        if self.let_values.get(let.id) is let.value:
            return self
        bound = {**self.let_values, let.id: let.value}
        if let.id in self.let_values:
            return Facts(bound, self.recursive, self.assumed_nullable)
        return Facts(
            bound, self.recursive, self.assumed_nullable, self._keys, self._nullable, self._recursive_flags
        )

    def _enter_lets(self, rel: Rel) -> "tuple[Facts, Rel]":
        """Return the body below all enclosing lets, and the facts there.

        The facts of each let's value are computed on the way, which keeps the recursion shallow.
        """
        here = self
        while isinstance(rel, algebra.Let):
            here = here._enter_let(rel)
            here.nullable(rel.value)
            here.unique_keys(rel.value)
            rel = rel.body
        return here, rel

    def _recursive_keys(self, id_: str) -> tuple[Key, ...]:
        """Return the keys that hold whatever the rows of the recursive relations are."""
        rec = self.recursive[id_]
        outer = {name: other for name, other in self.recursive.items() if name not in rec.ids}
        return Facts(self.let_values, outer).unique_keys(rec.values[rec.ids.index(id_)])

    def _recursive_nullable(self, id_: str) -> tuple[bool, ...]:
        """Return the least fixed point of the nullability of the LetRec's relations, for one of them."""
        if id_ not in self._recursive_flags:
            rec = self.recursive[id_]
            flags = {name: (False,) * len(types) for name, types in zip(rec.ids, rec.types, strict=True)}
            before: dict[str, tuple[bool, ...]] = {}
            while flags != before:
                before = flags
                inside = Facts(self.let_values, self.recursive, {**self.assumed_nullable, **before})
                next_flags = [inside.nullable(value) for value in rec.values]
                flags = dict(zip(rec.ids, next_flags, strict=True))
            self._recursive_flags.update(flags)
        return self._recursive_flags[id_]

    def _keys_of(self, rel: Rel) -> list[Key]:
        match rel:
            case algebra.Get(keys=keys):
                return [frozenset(key) for key in keys]
            case algebra.Constant(rows=rows):
                return [frozenset()] if len(rows) <= 1 else []
            case algebra.LocalGet(id=id_):
                if id_ in self.recursive:
                    return list(self._recursive_keys(id_))
                return list(self.unique_keys(self.let_values[id_])) if id_ in self.let_values else []
            case algebra.Map(input=source) | algebra.Threshold(input=source):
                return list(self.unique_keys(source))
            case algebra.Window():
                return [*self.unique_keys(rel.input), *_row_number_keys(rel)]
            case algebra.Filter(input=source, predicates=predicates):
                return [_remove_constant_columns(key, predicates) for key in self.unique_keys(source)]
            case algebra.Project(input=source, columns=columns):
                return _project_keys(self.unique_keys(source), columns)
            case algebra.Join():
                return self._join_keys(rel)
            case algebra.Reduce(keys=group):
                return [frozenset(range(len(group)))]
            case algebra.Expand(input=source, ordinality=numbered):
                number = frozenset((width(rel) - 1,))
                return [key | number for key in self.unique_keys(source)] if numbered else []
            case algebra.TopK(input=source, group=group, limit=limit):
                only = [frozenset(group)] if limit is not None and limit <= 1 else []
                return [*self.unique_keys(source), *only]
            case algebra.Distinct(input=source):
                return [*self.unique_keys(source), frozenset(range(width(source)))]
            case algebra.Single(input=source, group=group):
                return [*self.unique_keys(source), frozenset(group)]
            case algebra.Union(inputs=inputs):
                positive = [source for source in inputs if not isinstance(source, algebra.Negate)]
                return list(self.unique_keys(positive[0])) if len(positive) == 1 else []
            case algebra.Let():
                here, body = self._enter_lets(rel)
                return list(here.unique_keys(body))
            case algebra.LetRec(ids=ids, body=body):
                return list(self.unique_keys(body)) if all(id_ in self.recursive for id_ in ids) else []
            case algebra.Negate():
                return []
            case _:
                assert_never(rel)

    def _join_keys(self, join: algebra.Join) -> list[Key]:
        """Return keys made of one key of each input that the other inputs do not determine through ``on``."""
        inputs: list[tuple[Key, tuple[Key, ...]]] = []
        start = 0
        for source in join.inputs:
            stop = start + width(source)
            shifted = tuple(frozenset(column + start for column in key) for key in self.unique_keys(source))
            inputs.append((frozenset(range(start, stop)), shifted))
            start = stop
        # An input with at most one row needs no key. Joins from subqueries have many such inputs.
        kept = {index for index, (_, known) in enumerate(inputs) if frozenset() not in known}
        alone = frozenset(range(len(inputs))) - kept
        for index in sorted(kept):
            if _determines(kept - {index} | alone, inputs, join.on):
                kept.discard(index)
        keys: list[Key] = [frozenset()]
        for index in sorted(kept):
            keys = [key | own for key in keys for own in inputs[index][1]][:MAX_KEYS]
        return [_remove_constant_columns(key, join.on) for key in keys]

    def _nullable_of(self, rel: Rel) -> tuple[bool, ...]:
        match rel:
            case algebra.Get(nullable=result):
                return result
            case algebra.Constant(rows=rows, types=types):
                return tuple(any(row[index] is None for row in rows) for index in range(len(types)))
            case algebra.LocalGet(id=id_, types=types):
                if id_ in self.assumed_nullable:
                    return self.assumed_nullable[id_]
                if id_ in self.recursive:
                    return self._recursive_nullable(id_)
                return self.nullable(self.let_values[id_]) if id_ in self.let_values else (True,) * len(types)
            case algebra.Map(input=source, scalars=scalars):
                inner = self.nullable(source)
                return inner + tuple(can_be_null(scalar, inner) for scalar in scalars)
            case algebra.Filter(input=source, predicates=predicates):
                return _exclude_rejected_nulls(self.nullable(source), predicates)
            case algebra.Project(input=source, columns=columns):
                inner = self.nullable(source)
                return tuple(inner[column] for column in columns)
            case algebra.Join(inputs=inputs, on=on):
                inner = tuple(flag for source in inputs for flag in self.nullable(source))
                return _exclude_rejected_nulls(inner, on)
            case algebra.Reduce():
                return self._reduce_nullable(rel)
            case algebra.Expand(input=source, calls=calls, outer=outer):
                alone = len(calls) == 1 and not outer
                call_nullable = (call.nullable or not alone for call in calls for _ in call.types)
                return (*self.nullable(source), *call_nullable, *((outer,) if rel.ordinality else ()))
            case algebra.TopK() | algebra.Distinct() | algebra.Threshold() | algebra.Single():
                return self.nullable(rel.input)
            case algebra.Window(input=source, calls=calls):
                return self.nullable(source) + tuple(map(_window_nullable, calls))
            case algebra.Negate(input=source):
                return self.nullable(source)
            case algebra.Union(inputs=inputs):
                positive = [source for source in inputs if not isinstance(source, algebra.Negate)]
                flags = [self.nullable(source) for source in positive or inputs]
                return tuple(any(column) for column in zip(*flags, strict=True))
            case algebra.Let():
                here, body = self._enter_lets(rel)
                return here.nullable(body)
            case algebra.LetRec(ids=ids, body=body):
                known = all(id_ in self.recursive for id_ in ids)
                return self.nullable(body) if known else (True,) * width(body)
            case _:
                assert_never(rel)

    def _reduce_nullable(self, rel: algebra.Reduce) -> tuple[bool, ...]:
        inner = self.nullable(rel.input)
        aggregates = tuple(
            lookup_aggregate(call.function).empty is None
            and (not rel.keys or any(can_be_null(arg, inner) for arg in call.args))
            for call in rel.aggregates
        )
        return tuple(can_be_null(key, inner) for key in rel.keys) + aggregates


def _row_number_keys(window: algebra.Window) -> list[Key]:
    """Return the keys that ``row_number`` gives: it is unique within a partition."""
    start = width(window.input)
    places = [start + i for i, call in enumerate(window.calls) if call.function == "row_number"]
    return [frozenset((*window.partition, place)) for place in places]


def _window_nullable(call: WindowCall) -> bool:
    """Return whether the window call's value can be NULL."""
    function = window_function(call.function)
    if function is None:
        return lookup_aggregate(call.function).empty is None
    return bool(call.args)


def _minimal_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    result: list[Key] = []
    for key in sorted(set(keys), key=lambda key: (len(key), sorted(key))):
        if not any(smaller <= key for smaller in result):
            result.append(key)
    return tuple(result[:MAX_KEYS])


def _remove_constant_columns(key: Key, predicates: tuple[Scalar, ...]) -> Key:
    return key - _closure(frozenset(), predicates)


def _project_keys(keys: Iterable[Key], columns: tuple[int, ...]) -> list[Key]:
    place = {column: index for index, column in reversed(tuple(enumerate(columns)))}
    return [frozenset(place[c] for c in key) for key in keys if all(c in place for c in key)]


def equalities(predicates: Iterable[Scalar]) -> list[tuple[Scalar, Scalar]]:
    """Return the two sides of each equality predicate, NULL-safe or not."""
    return [
        (predicate.args[0], predicate.args[1])
        for predicate in predicates
        if isinstance(predicate, Call) and predicate.function in ("eq", "is_not_distinct")
    ]


def _closure(determinants: Key, predicates: Iterable[Scalar]) -> Key:
    """Return the ``determinants`` with all columns that equalities with them or with constants determine."""
    pairs = equalities(predicates)
    result = set(determinants)
    changed = True
    while changed:
        changed = False
        for left, right in (*pairs, *((b, a) for a, b in pairs)):
            if isinstance(left, Column) and left.index not in result and _columns(right) <= result:
                result.add(left.index)
                changed = True
    return frozenset(result)


def _columns(scalar: Scalar) -> Key:
    if isinstance(scalar, Column):
        return frozenset((scalar.index,))
    return frozenset[int]().union(*(_columns(child) for child in children(scalar)))


def _determines(
    determinants: set[int], inputs: list[tuple[Key, tuple[Key, ...]]], predicates: tuple[Scalar, ...]
) -> bool:
    """Return whether the rows of the ``determinants`` fix at most one row of each other input."""
    covered = set(determinants)
    known = _closure(frozenset[int]().union(*(inputs[index][0] for index in covered)), predicates)
    changed = True
    while changed and len(covered) < len(inputs):
        changed = False
        for index, (columns, keys) in enumerate(inputs):
            if index not in covered and any(key <= known for key in keys):
                covered.add(index)
                known = _closure(known | columns, predicates)
                changed = True
    return len(covered) == len(inputs)


def _exclude_rejected_nulls(flags: tuple[bool, ...], predicates: tuple[Scalar, ...]) -> tuple[bool, ...]:
    rejected = frozenset[int]().union(*(null_rejecting_columns(predicate) for predicate in predicates))
    return tuple(flag and index not in rejected for index, flag in enumerate(flags))
