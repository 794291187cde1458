"""GROUP BY: the keys, and the expressions over groups that may use only keys and aggregates."""

from collections.abc import Sequence

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.sql.bind.calls import settled
from kpg.compiler.sql.bind.scope import Aggregates, Binding, Scope, resolve_name
from kpg.compiler.sql.syntax import construct_name, only
from kpg.compiler.sql.tree import Group, Ids, Node, Scan, used, walk
from kpg.runtime.errors import Error
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


def bind_keys(binding: Binding, scope: Scope, node: exp.Select, items: Sequence[Item]) -> list[Key]:
    """The keys of GROUP BY; a plain column keeps its id."""
    clause = node.args.get("group")
    if clause is None:
        return []
    only(clause, binding.source, "expressions")
    keys: dict[Scalar, Key] = {}
    for part in clause.expressions:
        scalar = settled(_key(binding, scope, items, part))
        own = isinstance(scalar, Column) and scalar.index in {known.column.index for known in scope.fields}
        column = scalar if own and isinstance(scalar, Column) else Column(binding.fresh(), scalar.type)
        keys.setdefault(scalar, Key(scalar, column))
    return list(keys.values())


def _key(binding: Binding, scope: Scope, items: Sequence[Item], part: exp.Expr) -> Scalar:
    """A key by position, by input column, by output name, or as an expression."""
    if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets):
        binding.refuse(construct_name(part), part)
    named: list[Item] = []
    if isinstance(part, exp.Literal) and not part.is_string:
        if not part.name.isdigit() or not 1 <= int(part.name) <= len(items):
            binding.wrong(f"position {part.name} is not in the select list", part)
        named = [items[int(part.name) - 1]]
    elif isinstance(part, exp.Column) and not part.table and not _is_input(scope, part.name):
        named = [item for item in items if item.name.lower() == part.name.lower()]
    if not named:
        return binding.expression(scope.without_aggregates("GROUP BY"), part)
    collected = scope.aggregates.ids if scope.aggregates is not None else []
    if not used(named[0].scalar, binding.subqueries).isdisjoint(collected):
        binding.wrong("an aggregate is not allowed in GROUP BY", part)
    return named[0].scalar


def _is_input(scope: Scope, name: str) -> bool:
    return any(known.listed and known.name.lower() == name.lower() for known in scope.fields)


def grouped(source: Node, keys: list[Key], collector: Aggregates) -> Node:
    """The groups of the source, with the aggregates collected."""
    return Group(
        source,
        tuple(key.column.index for key in keys),
        tuple(key.scalar for key in keys),
        tuple(collector.ids),
        tuple(collector.calls),
    )


@dataclass(frozen=True, slots=True)
class Grouping:
    """Turns expressions over the input rows into expressions over groups.

    Columns of a table whose primary key is among the keys become keys where they are used.
    """

    binding: Binding
    scope: Scope
    keys: list[Key]
    source: Node

    def over_groups(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """The scalar with keys for the parts that equal them; ProgrammingError if other columns remain."""
        result = self._replaced(scalar)
        own = {known.column.index: known.column for known in self.scope.fields}
        stray = used(result, self.binding.subqueries) & own.keys()
        stray -= {key.column.index for key in self.keys}
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

    def _determined(self) -> Ids:
        """The columns of the tables in the source whose primary keys are group keys."""
        grouped = {key.column.index for key in self.keys if key.scalar == key.column}
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
