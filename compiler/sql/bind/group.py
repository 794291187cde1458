"""GROUP BY: the keys, and the expressions over groups that may use only keys and aggregates."""

from collections.abc import Sequence
from dataclasses import field, replace

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.sql.bind.calls import comparable, settled
from kpg.compiler.sql.bind.grouping_sets import grouping_sets, has_sets
from kpg.compiler.sql.bind.scope import ROW, Aggregates, Binding, Marker, Scope, resolve_name
from kpg.compiler.sql.syntax import only
from kpg.compiler.sql.tree import Group, GroupingSets, Ids, Node, Scan, Window, used, walk
from kpg.runtime.errors import Error
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, children, with_children


@dataclass(frozen=True, slots=True)
class Item:
    """One column of a select list: its name and its value; ``syntax`` is where errors point."""

    name: str
    scalar: Scalar
    syntax: exp.Expr


@dataclass(frozen=True, slots=True)
class Key:
    """A group key: its value over the input, and the column that the groups have it in."""

    scalar: Scalar
    column: Column


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of GROUP BY, and the grouping sets by places in them; None: one, of all keys."""

    keys: list[Key]
    """Those written, then those that these bring along."""
    sets: tuple[tuple[int, ...], ...] | None = None
    written: int = 0


def bind_keys(binding: Binding, scope: Scope, node: exp.Select, items: Sequence[Item]) -> Keys:
    """The keys of GROUP BY; a plain column keeps its id."""
    clause = node.args.get("group")
    if clause is None:
        return Keys([])
    only(clause, binding.source, "expressions", "all")
    if not clause.expressions:
        return _all_keys(binding, scope, items)
    keys: dict[Scalar, Key] = {}
    numbers: dict[Scalar, int] = {}
    sets: list[tuple[int, ...]] = []
    for parts in grouping_sets(clause.expressions, binding.refuse):
        places = []
        for part in parts:
            scalar = settled(_key(binding, scope, items, part))
            if scalar not in keys:
                keys[scalar] = _new_key(binding, scope, scalar)
            places.append(numbers.setdefault(scalar, len(numbers)))
        sets.append(tuple(sorted(set(places))))
    found = list(keys.values())
    if not has_sets(clause):
        return Keys(found)
    if clause.args.get("all") is False:
        sets = list(dict.fromkeys(sets))
    return Keys(found, tuple(sets), len(found))


def _all_keys(binding: Binding, scope: Scope, items: Sequence[Item]) -> Keys:
    """GROUP BY ALL: by what the select list has without an aggregate."""
    collected = scope.aggregates.all_ids if scope.aggregates is not None else frozenset()
    if scope.windows is not None:
        collected |= frozenset(scope.windows.ids)
    plain = (settled(item.scalar) for item in items)
    chosen = dict.fromkeys(s for s in plain if used(s, binding.subqueries).isdisjoint(collected))
    return Keys([_new_key(binding, scope, scalar) for scalar in chosen])


def _new_key(binding: Binding, scope: Scope, scalar: Scalar) -> Key:
    own = isinstance(scalar, Column) and scalar.index in {known.column.index for known in scope.fields}
    return Key(scalar, scalar if own and isinstance(scalar, Column) else Column(binding.fresh(), scalar.type))


def _key(binding: Binding, scope: Scope, items: Sequence[Item], part: exp.Expr) -> Scalar:
    """A key by position, by input column, by output name, or as an expression."""
    named: list[Item] = []
    if isinstance(part, exp.Literal) and not part.is_string:
        if not part.name.isdigit() or not 1 <= int(part.name) <= len(items):
            binding.wrong(f"position {part.name} is not in the select list", part)
        named = [items[int(part.name) - 1]]
    elif isinstance(part, exp.Column) and not part.table and not _is_input(scope, part.name):
        named = [item for item in items if item.name.lower() == part.name.lower()]
    if not named:
        inner = replace(scope.without_aggregates("GROUP BY"), expansions=scope.expansions)
        found = binding.expression(inner, part)
        comparable(binding, found.type, "equality", part)
        return found
    comparable(binding, named[0].scalar.type, "equality", part)
    collected = scope.aggregates.all_ids if scope.aggregates is not None else frozenset()
    if not used(named[0].scalar, binding.subqueries).isdisjoint(collected):
        binding.wrong("an aggregate is not allowed in GROUP BY", part)
    over = scope.windows.ids if scope.windows is not None else []
    if not used(named[0].scalar, binding.subqueries).isdisjoint(over):
        binding.wrong("a window function is not allowed in GROUP BY", part)
    return named[0].scalar


def _is_input(scope: Scope, name: str) -> bool:
    return any(known.listed and known.name.lower() == name.lower() for known in scope.fields)


def grouped(binding: Binding, source: Node, keys: Keys, collector: Aggregates) -> Node:
    """The groups of the source, with the aggregates collected."""
    ids, scalars = tuple(key.column.index for key in keys.keys), tuple(key.scalar for key in keys.keys)
    if keys.sets is None and not collector.markers:
        return Group(source, ids, scalars, tuple(collector.ids), tuple(collector.calls))
    every = tuple(range(len(keys.keys)))
    sets = (
        tuple(chosen + every[keys.written :] for chosen in keys.sets) if keys.sets is not None else (every,)
    )
    marked = tuple(_marked(binding, marker, scalars, sets) for marker in collector.markers)
    marks = tuple(marker.id for marker in collector.markers)
    calls = tuple(collector.calls)
    return GroupingSets(source, ids, scalars, tuple(collector.ids), calls, sets, marks, marked)


def _marked(
    binding: Binding, marker: Marker, keys: tuple[Scalar, ...], sets: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """For each set, the number whose bits are 1 for the keys that it lacks, the last key the lowest bit."""
    for scalar in marker.keys:
        if scalar not in keys:
            binding.wrong("GROUPING takes expressions of GROUP BY", marker.syntax)
    places = [keys.index(scalar) for scalar in marker.keys]
    return tuple(int("".join("0" if place in chosen else "1" for place in places), 2) for chosen in sets)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Turns expressions over the input rows into expressions over groups.

    Columns of a table whose primary key is among the keys become keys where they are used.
    """

    binding: Binding
    scope: Scope
    grouped_by: Keys
    source: Node
    numbers: list[Column] = field(default_factory=list)
    """The column that tells rows apart, if a call is to have another value for each group."""

    @property
    def keys(self) -> list[Key]:
        """The keys so far."""
        return self.grouped_by.keys

    def over_groups(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """The scalar with keys for the parts that equal them; ProgrammingError if other columns remain."""
        result = self._replaced(scalar)
        own = {known.column.index: known.column for known in self.scope.fields}
        stray = used(result, self.binding.subqueries) & own.keys()
        stray -= {key.column.index for key in self.keys}
        telling = {one.column.index: one.column for one in self.scope.fields if one.name == ROW}
        self.numbers.extend(telling[id_] for id_ in stray & telling.keys())
        stray -= telling.keys()
        if stray:
            brought = stray & self._determined()
            self.keys.extend(Key(own[id_], own[id_]) for id_ in sorted(brought))
            stray -= brought
        if stray:
            place, name = self._place(stray, node)
            self.binding.wrong(
                f'column "{name}" must be in GROUP BY or inside an aggregate', place, "add it to GROUP BY"
            )
        return result

    def numbered(self, groups: Node) -> Node:
        """The groups, with numbers for calls that have another value for each of them."""
        for number in dict.fromkeys(self.numbers):
            calls = (WindowCall("row_number", (), number.type),)
            groups = Window(groups, (), (), (), (number.index,), calls)
        return groups

    def check_direct(self, collector: Aggregates) -> None:
        """Refuse arguments taken once for each group that do not have one value in it."""
        for scalar, node in collector.direct:
            self.over_groups(scalar, node)
            own = {known.column.index for known in self.scope.fields}
            if self.grouped_by.sets is not None and used(scalar, self.binding.subqueries) & own:
                self.binding.refuse("a key as an argument before WITHIN GROUP, beside grouping sets,", node)

    def _determined(self) -> Ids:
        """The columns of tables whose primary keys are group keys, in each grouping set if there are such."""
        keys, sets = self.keys, self.grouped_by.sets
        if sets is not None:
            keys = [keys[place] for place in sorted(set(sets[0]).intersection(*sets))]
        grouped = {key.column.index for key in keys if key.scalar == key.column}
        found: set[int] = set()
        for node in walk(self.source):
            if not isinstance(node, Scan) or not isinstance(node.rel, Get) or not node.rel.is_table:
                continue
            if any(grouped.issuperset(node.ids[place] for place in key) for key in node.rel.keys):
                found.update(node.ids)
        return frozenset(found)

    def _replaced(self, scalar: Scalar) -> Scalar:
        for key in self.keys:
            if scalar == key.scalar:
                return key.column
        old = children(scalar)
        new = tuple(self._replaced(child) for child in old)
        return scalar if new == old else with_children(scalar, new)

    def _place(self, stray: frozenset[int], node: exp.Expr) -> tuple[exp.Expr, str]:
        """Where the text names one of the stray columns, and its name."""
        for part in node.find_all(exp.Column):
            try:
                if resolve_name(self.binding, self.scope, part).column.index in stray:
                    return part, part.name
            except Error:
                continue
        name = next(known.name for known in self.scope.fields if known.column.index in stray)
        return node, name
