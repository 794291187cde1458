"""Logical properties of a relation: unique keys, nullability and at-most-one-row.

``bound`` maps the lets in scope to their values; ``recursive`` names the recursive lets. Each property holds
for the collection that the relation denotes. Multiplicities there are not negative, so a union with a negated
input is contained in the union of its other inputs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import can_be_null, rejected_nulls
from kpg.compiler.algebra.traverse import width
from kpg.runtime.functions import aggregate_named, window_function
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar, children

Key = frozenset[int]
Bound = Mapping[str, Rel]

MAX_KEYS: Final = 8
"""Unique keys that are known of a relation, the smallest: a join has one for each combination of its
inputs', and few are ever asked for.
"""


def unique_keys(rel: Rel, bound: Bound | None = None) -> tuple[Key, ...]:
    """Column sets on which no two rows agree (duplicates included), smallest first.

    The empty set among them means that there is at most one row.
    """
    return Facts(bound or {}).unique_keys(rel)


def at_most_one_row(rel: Rel, bound: Bound | None = None) -> bool:
    """Whether the relation never has two rows."""
    return Facts(bound or {}).at_most_one_row(rel)


def is_unique(rel: Rel, columns: Iterable[int], bound: Bound | None = None) -> bool:
    """Whether no two rows agree on ``columns``."""
    chosen = frozenset(columns)
    return any(key <= chosen for key in unique_keys(rel, bound))


def nullable(rel: Rel, bound: Bound | None = None) -> tuple[bool, ...]:
    """For each column, whether it can be NULL."""
    return Facts(bound or {}).nullable(rel)


@dataclass(slots=True, eq=False)
class Facts:
    """The facts about relations among the same lets, each found once however often it is asked for."""

    bound: Bound
    recursive: Mapping[str, algebra.LetRec] = field(default_factory=dict)
    assumed: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    """Which columns of recursive relations are taken to be nullable, while that is found out."""
    _keys: dict[Rel, tuple[Key, ...]] = field(default_factory=dict)
    _nullable: dict[Rel, tuple[bool, ...]] = field(default_factory=dict)
    _recursive: dict[str, tuple[bool, ...]] = field(default_factory=dict)

    def unique_keys(self, rel: Rel) -> tuple[Key, ...]:
        """As the function of that name."""
        known = self._keys.get(rel)
        if known is None:
            known = self._keys[rel] = _minimal(self._keys_of(rel))
        return known

    def at_most_one_row(self, rel: Rel) -> bool:
        """As the function of that name."""
        return frozenset() in self.unique_keys(rel)

    def nullable(self, rel: Rel) -> tuple[bool, ...]:
        """As the function of that name."""
        known = self._nullable.get(rel)
        if known is None:
            known = self._nullable[rel] = self._nullable_of(rel)
        return known

    def _within(self, let: algebra.Let) -> "Facts":
        """The facts in a let's body."""
        if self.bound.get(let.id) is let.value:
            return self
        bound = {**self.bound, let.id: let.value}
        if let.id in self.bound:
            return Facts(bound, self.recursive, self.assumed)
        return Facts(bound, self.recursive, self.assumed, self._keys, self._nullable, self._recursive)

    def _body(self, rel: Rel) -> "tuple[Facts, Rel]":
        """What the lets around a relation are for, with the facts there, those of the values found before."""
        here = self
        while isinstance(rel, algebra.Let):
            here = here._within(rel)
            here.nullable(rel.value)
            here.unique_keys(rel.value)
            rel = rel.body
        return here, rel

    def _recursive_keys(self, id_: str) -> tuple[Key, ...]:
        """The keys that the relation has whatever the recursive ones are."""
        rec = self.recursive[id_]
        unknown = {one: other for one, other in self.recursive.items() if one not in rec.ids}
        return Facts(self.bound, unknown).unique_keys(rec.values[rec.ids.index(id_)])

    def _recursive_nullable(self, id_: str) -> tuple[bool, ...]:
        """The least flags that the relations' definitions agree with: no round makes a NULL of nothing."""
        if id_ not in self._recursive:
            rec = self.recursive[id_]
            flags = {one: (False,) * len(types) for one, types in zip(rec.ids, rec.types, strict=True)}
            before: dict[str, tuple[bool, ...]] = {}
            while flags != before:
                before = flags
                inside = Facts(self.bound, self.recursive, {**self.assumed, **before})
                found = [inside.nullable(value) for value in rec.values]
                flags = dict(zip(rec.ids, found, strict=True))
            self._recursive.update(flags)
        return self._recursive[id_]

    def _keys_of(self, rel: Rel) -> list[Key]:
        match rel:
            case algebra.Get(keys=keys):
                return [frozenset(key) for key in keys]
            case algebra.Constant(rows=rows):
                return [frozenset()] if len(rows) <= 1 else []
            case algebra.LocalGet(id=id_):
                if id_ in self.recursive:
                    return list(self._recursive_keys(id_))
                return list(self.unique_keys(self.bound[id_])) if id_ in self.bound else []
            case algebra.Map(input=source) | algebra.Threshold(input=source):
                return list(self.unique_keys(source))
            case algebra.Window():
                return [*self.unique_keys(rel.input), *_numbered(rel)]
            case algebra.Filter(input=source, predicates=predicates):
                return [_reduced(key, predicates) for key in self.unique_keys(source)]
            case algebra.Project(input=source, columns=columns):
                return _projected(self.unique_keys(source), columns)
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
                here, body = self._body(rel)
                return list(here.unique_keys(body))
            case algebra.LetRec(ids=ids, body=body):
                return list(self.unique_keys(body)) if all(id_ in self.recursive for id_ in ids) else []
            case algebra.Negate():
                return []
            case _:
                assert_never(rel)

    def _join_keys(self, join: algebra.Join) -> list[Key]:
        """One key of each input that the other inputs' columns do not determine through ``on``."""
        inputs: list[tuple[Key, tuple[Key, ...]]] = []
        start = 0
        for source in join.inputs:
            stop = start + width(source)
            shifted = tuple(frozenset(column + start for column in key) for key in self.unique_keys(source))
            inputs.append((frozenset(range(start, stop)), shifted))
            start = stop
        # One row at most is determined by anything; subqueries are joins of many of these.
        kept = {index for index, (_, known) in enumerate(inputs) if frozenset() not in known}
        alone = frozenset(range(len(inputs))) - kept
        for index in sorted(kept):
            if _determines(kept - {index} | alone, inputs, join.on):
                kept.discard(index)
        keys: list[Key] = [frozenset()]
        for index in sorted(kept):
            keys = [key | own for key in keys for own in inputs[index][1]][:MAX_KEYS]
        return [_reduced(key, join.on) for key in keys]

    def _nullable_of(self, rel: Rel) -> tuple[bool, ...]:
        match rel:
            case algebra.Get(nullable=result):
                return result
            case algebra.Constant(rows=rows, types=types):
                return tuple(any(row[index] is None for row in rows) for index in range(len(types)))
            case algebra.LocalGet(id=id_, types=types):
                if id_ in self.assumed:
                    return self.assumed[id_]
                if id_ in self.recursive:
                    return self._recursive_nullable(id_)
                return self.nullable(self.bound[id_]) if id_ in self.bound else (True,) * len(types)
            case algebra.Map(input=source, scalars=scalars):
                inner = self.nullable(source)
                return inner + tuple(can_be_null(scalar, inner) for scalar in scalars)
            case algebra.Filter(input=source, predicates=predicates):
                return _restricted(self.nullable(source), predicates)
            case algebra.Project(input=source, columns=columns):
                inner = self.nullable(source)
                return tuple(inner[column] for column in columns)
            case algebra.Join(inputs=inputs, on=on):
                inner = tuple(flag for source in inputs for flag in self.nullable(source))
                return _restricted(inner, on)
            case algebra.Reduce():
                return self._reduce_nullable(rel)
            case algebra.Expand(input=source, calls=calls, outer=outer):
                alone = len(calls) == 1 and not outer
                made = (call.nullable or not alone for call in calls for _ in call.types)
                return (*self.nullable(source), *made, *((outer,) if rel.ordinality else ()))
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
                here, body = self._body(rel)
                return here.nullable(body)
            case algebra.LetRec(ids=ids, body=body):
                known = all(id_ in self.recursive for id_ in ids)
                return self.nullable(body) if known else (True,) * width(body)
            case _:
                assert_never(rel)

    def _reduce_nullable(self, rel: algebra.Reduce) -> tuple[bool, ...]:
        inner = self.nullable(rel.input)
        aggregates = tuple(
            aggregate_named(call.function).empty is None
            and (not rel.keys or any(can_be_null(arg, inner) for arg in call.args))
            for call in rel.aggregates
        )
        return tuple(can_be_null(key, inner) for key in rel.keys) + aggregates


def _numbered(window: algebra.Window) -> list[Key]:
    """A partition has no number twice."""
    start = width(window.input)
    places = [start + i for i, call in enumerate(window.calls) if call.function == "row_number"]
    return [frozenset((*window.partition, place)) for place in places]


def _window_nullable(call: WindowCall) -> bool:
    """Whether a window function's value can be NULL."""
    function = window_function(call.function)
    if function is None:
        return aggregate_named(call.function).empty is None
    return bool(call.args)


def _minimal(keys: Iterable[Key]) -> tuple[Key, ...]:
    result: list[Key] = []
    for key in sorted(set(keys), key=lambda key: (len(key), sorted(key))):
        if not any(smaller <= key for smaller in result):
            result.append(key)
    return tuple(result[:MAX_KEYS])


def _reduced(key: Key, predicates: tuple[Scalar, ...]) -> Key:
    return key - _closure(frozenset(), predicates)


def _projected(keys: Iterable[Key], columns: tuple[int, ...]) -> list[Key]:
    place = {column: index for index, column in reversed(tuple(enumerate(columns)))}
    return [frozenset(place[c] for c in key) for key in keys if all(c in place for c in key)]


def equalities(predicates: Iterable[Scalar]) -> list[tuple[Scalar, Scalar]]:
    """The two sides of each predicate that is an equality (NULL-safe or not)."""
    return [
        (predicate.args[0], predicate.args[1])
        for predicate in predicates
        if isinstance(predicate, Call) and predicate.function in ("eq", "is_not_distinct")
    ]


def _closure(known: Key, predicates: Iterable[Scalar]) -> Key:
    """``known`` and the columns that equalities with known columns or constants determine."""
    pairs = equalities(predicates)
    result = set(known)
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
    kept: set[int], inputs: list[tuple[Key, tuple[Key, ...]]], predicates: tuple[Scalar, ...]
) -> bool:
    """Whether the rows of the ``kept`` inputs determine at most one row of each other input."""
    covered = set(kept)
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


def _restricted(flags: tuple[bool, ...], predicates: tuple[Scalar, ...]) -> tuple[bool, ...]:
    rejected = frozenset[int]().union(*(rejected_nulls(predicate) for predicate in predicates))
    return tuple(flag and index not in rejected for index, flag in enumerate(flags))
