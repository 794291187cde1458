"""Aggregate calls, GROUP BY and grouping sets.

Each distinct aggregate call is bound once and collected by the query that it belongs to. Its operands include
DISTINCT, ORDER BY and WITHIN GROUP. Expressions over groups may use only keys and aggregates. GROUPING SETS,
ROLLUP and CUBE expand to a list of grouping sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import combinations, product
from math import prod
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import AggregateCall, Get
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.sql.bind.calls import (
    brought,
    call,
    coerce,
    comparable,
    condition,
    over_words,
    settled,
    unified,
)
from kpg.compiler.sql.bind.functions import Called, aggregate_of, listed
from kpg.compiler.sql.bind.scope import ROW, Aggregates, Binding, Marker, Scope, resolve_name
from kpg.compiler.sql.bound_tree import Group, GroupingSets, Ids, Node, Scan, Window, used, walk
from kpg.compiler.sql.parse.syntax import construct_name, only
from kpg.runtime.errors import Error
from kpg.runtime.functions import (
    AggregateFunction,
    Composed,
    Direction,
    Form,
    Maintenance,
    Part,
    aggregate_named,
    common_type,
    exact,
    resolve_aggregate,
    specialised,
)
from kpg.runtime.functions.comparison import key
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, children, with_children
from kpg.runtime.types import BIGINT, BOOLEAN, BYTEA, DOUBLE, INTEGER, NUMERIC, UNKNOWN


@dataclass(frozen=True, slots=True)
class Operands:
    """What an aggregate is called with."""

    args: list[Scalar]
    distinct: bool = False
    keys: tuple[Scalar, ...] = ()
    """What its rows are put in order by, each in its direction of ``order``."""
    order: tuple[Direction, ...] = ()
    direct: list[tuple[Scalar, exp.Expr]] = field(default_factory=list)
    """Arguments that have one value in a group."""


def bind_operands(
    binding: Binding, scope: Scope, node: exp.Expr, called: Called, within: exp.Expr | None
) -> Operands:
    """The bound operands of a call, which may stand before WITHIN GROUP."""
    function = aggregate_named(called.name)
    only(node, binding.source, "this", *(name for name, part in node.args.items() if listed(part)))
    if function.form is Form.PLAIN:
        if within is not None:
            binding.wrong(
                f"{called.shown} takes no WITHIN GROUP", within, "write ORDER BY in the parentheses"
            )
        return _plain(binding, scope, node, called)
    if within is None:
        binding.wrong(f"{called.shown} needs WITHIN GROUP (ORDER BY ...)", node)
    for part in called.args:
        if isinstance(part, exp.Distinct | exp.Order | exp.Star):
            binding.wrong(f"{called.shown} takes plain arguments before WITHIN GROUP", node)
    keys, order = _keys(binding, scope, within.expressions)
    direct = [binding.expression(scope, arg) for arg in called.args]
    written = list(zip(direct, called.args, strict=True))
    if function.form is Form.ORDERED_SET:
        if len(keys) != 1:
            binding.wrong(f"{called.shown} is ordered by one expression", within)
        fractions = [brought(binding, arg, DOUBLE, node) if arg.type == UNKNOWN else arg for arg in direct]
        return Operands([keys[0], *fractions], False, keys, order, written)
    if len(keys) != len(direct):
        message = f"{called.shown} of {len(direct)} arguments is ordered by {len(keys)} expressions"
        binding.wrong(message, node, "give an argument for each expression of ORDER BY")
    place = _place(binding, keys, direct, order, node)
    return Operands([place, *keys], False, (), (), written)


def _keys(
    binding: Binding, scope: Scope, parts: Sequence[exp.Expr]
) -> tuple[tuple[Scalar, ...], tuple[Direction, ...]]:
    keys, order = [], []
    for part in parts:
        only(part, binding.source, "this", "desc", "nulls_first")
        keys.append(settled(binding.expression(scope, part.this)))
        order.append(Direction(bool(part.args.get("desc")), bool(part.args.get("nulls_first"))))
    return tuple(keys), tuple(order)


def _place(
    binding: Binding,
    keys: Sequence[Scalar],
    values: Sequence[Scalar],
    order: Sequence[Direction],
    node: exp.Expr,
) -> Scalar:
    """-1, 0 or 1: whether the keys come before the values in the order, are equal, or come after them."""
    before, after = Literal(-1, INTEGER), Literal(1, INTEGER)
    result: Scalar = Literal(0, INTEGER)
    for group_key, value, direction in reversed(list(zip(keys, values, order, strict=True))):
        left, right = unified(
            binding, [group_key, value], [node, node], "an argument and its ORDER BY", common_type
        )
        first, last = (after, before) if direction.descending else (before, after)
        null_key, null_value = (before, after) if direction.nulls_first else (after, before)
        smaller = If(call(binding, "lt", [left, right], node), first, last, INTEGER)
        known = If(Call("is_null", (right,), BOOLEAN), null_value, smaller, INTEGER)
        differs = If(Call("is_null", (left,), BOOLEAN), null_key, known, INTEGER)
        result = If(call(binding, "is_not_distinct", [left, right], node), result, differs, INTEGER)
    return result


def _plain(binding: Binding, scope: Scope, node: exp.Expr, called: Called) -> Operands:
    function = aggregate_named(called.name)
    if not called.args:
        binding.wrong(f"{called.shown} takes {function.accepts}", node)
    parts, clause = _without_order(binding, called.args, node, called)
    keys, order = _keys(binding, scope, clause)
    operand, *others = parts
    distinct = isinstance(operand, exp.Distinct)
    if isinstance(operand, exp.Distinct):
        only(operand, binding.source, "expressions")
        rows = _distinct_rows(binding, scope, operand, node, called)
        if rows is not None:
            return Operands(rows, True, keys, order)
        operands, inner = _without_order(binding, operand.expressions, node, called)
        more_keys, more = _keys(binding, scope, inner)
        keys, order = keys + more_keys, order + more
        operand, others = operands[0], [*operands[1:], *others]
    if isinstance(operand, exp.Star):
        if not function.takes_rows or distinct:
            binding.wrong(f"{called.shown} does not take *", node)
        only(operand, binding.source)
        return Operands([])
    if function.takes_rows and others:
        binding.wrong(f"{called.shown} takes one argument", node)
    first = settled(binding.expression(scope, operand))
    args = [first, *(_beside(binding, scope, first, other) for other in others)]
    if function.keeps_nulls:
        args = [Literal(1, BOOLEAN), *args]
    return Operands(args, distinct, keys, order)


def _beside(binding: Binding, scope: Scope, first: Scalar, node: exp.Expr) -> Scalar:
    """Another operand: a quoted constant beside a BYTEA, as the separator of two, is one."""
    value = binding.expression(scope, node)
    if value.type == UNKNOWN and first.type == BYTEA:
        return brought(binding, value, BYTEA, node)
    return settled(value)


def _without_order(
    binding: Binding, parts: Sequence[exp.Expr], node: exp.Expr, called: Called
) -> tuple[list[exp.Expr], Sequence[exp.Expr]]:
    """The operands, of which there has to be one, without the ORDER BY that stands behind one, and that."""
    clause: Sequence[exp.Expr] = ()
    result = []
    for part in parts:
        if isinstance(part, exp.Order):
            only(part, binding.source, "this", "expressions")
            clause = part.expressions
            part = part.this
        if part is not None:
            result.append(part)
    if not result:
        binding.wrong(f"{called.shown} needs an operand", node)
    return result, clause


def _distinct_rows(
    binding: Binding, scope: Scope, distinct: exp.Distinct, node: exp.Expr, called: Called
) -> list[Scalar] | None:
    """The arguments of ``count(DISTINCT (a, b))`` or ``count(DISTINCT a, b)``; None for one plain operand.

    The first is what is counted where it is not NULL: a row in parentheses always is something (as in
    Postgres), without them it counts if none of its values is NULL (as in Spark).
    """
    parts = distinct.expressions
    whole = len(parts) == 1 and isinstance(parts[0], exp.Tuple)
    if not aggregate_named(called.name).takes_rows:
        if whole:
            binding.refuse(f"DISTINCT over several expressions in {called.shown}", node)
        return None
    if not parts or (len(parts) == 1 and not whole):
        return None
    operands = parts[0].expressions if whole else parts
    values = [settled(binding.expression(scope, part)) for part in operands]
    one = Literal(1, INTEGER)
    if whole:
        return [one, *values]
    tests = [call(binding, "is_not_null", [value], node) for value in values]
    counted = If(call(binding, "and", tests, node), one, Literal(None, INTEGER), INTEGER)
    return [counted, *values]


MOST_MARKED: Final = 31
"""Keys of one GROUPING, a bit each."""


def bind_aggregate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The scalar that stands for an aggregate: a column of the grouping, or an expression over such."""
    return collected(binding, scope, scope.without_aggregates("the argument of an aggregate"), None, node)


def collected(
    binding: Binding, scope: Scope, inner: Scope, into: Aggregates | None, node: exp.Expr
) -> Scalar:
    """The scalar that stands for an aggregate with arguments in ``inner``, collected ``into`` others.

    Where these are not given, they are those of the query whose columns it is over.
    """
    kept = within = None
    aggregate = node
    if isinstance(aggregate, exp.Filter):
        only(aggregate, binding.source, "this", "expression")
        kept, aggregate = aggregate.expression.this, aggregate.this
    if isinstance(aggregate, exp.WithinGroup):
        only(aggregate, binding.source, "this", "expression")
        within, aggregate = aggregate.expression, aggregate.this
    called = aggregate_of(aggregate, binding.catalog.functions)
    if called is None:
        binding.refuse(f"aggregate {construct_name(aggregate)}", aggregate)
    operands = bind_operands(binding, inner, aggregate, called, within)
    args = operands.args
    if kept is not None:
        test = condition(binding, binding.expression(inner, kept), kept, "FILTER")
        args = args or [Literal(1, BIGINT)]
        args = [If(test, args[0], Literal(None, args[0].type), args[0].type), *args[1:]]
    if into is None:
        into = _collector(binding, scope, [*args, *operands.keys], node)
    into.direct += operands.direct
    return _collected(binding, into, node, called, args, operands)


def bind_grouping(binding: Binding, scope: Scope, node: exp.Grouping) -> Scalar:
    """GROUPING(keys...): a number that tells which of the keys a row's grouping set lacks."""
    only(node, binding.source, "expressions")
    inner = scope.without_aggregates("GROUPING")
    keys = tuple(settled(binding.expression(inner, part)) for part in node.expressions)
    if not 1 <= len(keys) <= MOST_MARKED:
        binding.wrong(f"GROUPING takes 1 to {MOST_MARKED} expressions", node)
    into = _collector(binding, scope, keys, node)
    known = next((marker for marker in into.markers if marker.keys == keys), None)
    if known is None:
        known = Marker(binding.fresh(), keys, node)
        into.markers.append(known)
    return Column(known.id, INTEGER)


def _collector(binding: Binding, scope: Scope, args: Sequence[Scalar], node: exp.Expr) -> Aggregates:
    """What collects an aggregate: the innermost query whose columns it is over, else the one it stands in."""
    needed = frozenset[int]().union(*(used(arg, binding.subqueries) for arg in args))
    home = scope.home_of(needed)
    if home.aggregates is None:
        binding.wrong(f"an aggregate is not allowed in {home.clause}", node)
    if home.aggregates.has_any(needed):
        binding.wrong("an aggregate is not allowed in the argument of an aggregate", node)
    return home.aggregates


def _collected(
    binding: Binding, into: Aggregates, node: exp.Expr, called: Called, args: list[Scalar], operands: Operands
) -> Scalar:
    """The aggregate as columns of the grouping: its own, or those of the aggregates that it is made of."""
    function = aggregate_named(called.name)
    if operands.distinct and args and args[0].type.kind in function.exact:
        args = [coerce(args[0], NUMERIC)]  # of different values there are few, and one state does
    types = tuple(arg.type for arg in args)
    function = exact(specialised(function, types), types)
    signature = function.rule(types)
    if signature is None:
        shown = ", ".join(str(arg.type) for arg in args[function.keeps_nulls :])
        binding.wrong(f"{called.shown} needs {function.accepts}, not {shown}", node)
    taken = tuple(coerce(arg, type_) for arg, type_ in zip(args, signature.args, strict=True))
    distinct = operands.distinct and not function.idempotent
    if distinct and function.accumulator is not None:
        taken = tuple(map(key, taken))
    written = ", ".join(arg.sql("postgres") for arg in called.args)
    maintenance: Maintenance = function.maintenance
    if taken and taken[0].type == NUMERIC and not distinct:
        maintenance, taken = over_words(function.name, taken) or (maintenance, taken)
    if not isinstance(maintenance, Composed):
        keys, order = _ordered(binding, into, function, taken, operands, node)
        text = f"{called.name}({written})"
        return _column(
            binding,
            into,
            AggregateCall(function.name, (*taken, *keys), distinct, signature.result, order, text),
        )
    parts, result = maintenance.build(taken)
    whole = node.sql("postgres")
    made = [_part(part, taken, written, whole, distinct=distinct) for part in parts]
    return substitute(result, [_column(binding, into, call) for call in made])


def _part(
    part: Part, taken: tuple[Scalar, ...], written: str, whole: str, *, distinct: bool
) -> AggregateCall:
    """One of the aggregates that another is made of; ``written`` are its arguments, ``whole`` the call."""
    type_ = resolve_aggregate(part.function, tuple(arg.type for arg in part.args)).result_type
    own = part.args == taken
    different = (distinct or part.distinct) and not aggregate_named(part.function).idempotent
    beside = tuple(arg for arg in taken if arg not in part.args) if distinct and not own else ()
    operated = tuple(map(key, part.args)) if different else part.args
    text = f"{part.function}({written})" if own else whole
    return AggregateCall(part.function, (*operated, *beside), different, type_, text=text)


def _ordered(
    binding: Binding,
    into: Aggregates,
    function: AggregateFunction,
    taken: tuple[Scalar, ...],
    operands: Operands,
    node: exp.Expr,
) -> tuple[tuple[Scalar, ...], tuple[Direction, ...]]:
    """The keys by which an aggregate that minds the order has its rows put in order, and their directions."""
    if function.in_order is None:
        return (), ()
    if function.form is Form.ORDERED_SET:
        return taken[:1], operands.order
    if operands.distinct and not set(operands.keys) <= {*operands.args, *taken}:
        hint = "order by its arguments"
        binding.wrong("an aggregate with DISTINCT can only be ordered by its arguments", node, hint)
    if operands.distinct:
        return operands.keys, operands.order
    order = (*operands.order, *(Direction(by.descending, by.nulls_first) for by in into.order))
    return (*map(key, operands.keys), *(by.column for by in into.order)), order


def _column(binding: Binding, into: Aggregates, aggregate: AggregateCall) -> Column:
    id_ = into.known.get(aggregate)
    if id_ is None:
        id_ = into.known[aggregate] = binding.fresh()
        into.calls.append(aggregate)
        into.ids.append(id_)
        into.present.add(id_)
    return Column(id_, aggregate.type)


Parts = tuple[exp.Expr, ...]
Sets = list[Parts]
Refuse = Callable[[str, exp.Expr], None]
MOST_SETS: Final = 4096
"""As many as Postgres takes."""


def has_sets(clause: exp.Group) -> bool:
    """Whether the clause has more than plain keys."""
    return any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in clause.expressions)


def grouping_sets(elements: Sequence[exp.Expr], refuse: Refuse) -> Sets:
    """Every combination of a grouping set of each element; ``refuse`` raises where there are too many."""
    each = [_sets(element, refuse) for element in elements]
    if prod(map(len, each)) > MOST_SETS:
        refuse(f"GROUP BY with more than {MOST_SETS} grouping sets", elements[0])
    return [tuple(part for chosen in choice for part in chosen) for choice in product(*each)]


def plain_keys(node: exp.Expr) -> Parts:
    """The keys of an element in parentheses or without."""
    match node:
        case exp.Paren():
            return plain_keys(node.this)
        case exp.Tuple():
            return tuple(part for element in node.expressions for part in plain_keys(element))
        case _:
            return (node,)


def _sets(node: exp.Expr, refuse: Refuse) -> Sets:
    """The grouping sets of one element."""
    match node:
        case exp.Rollup():
            parts = [plain_keys(part) for part in node.expressions]
            return [_together(parts[:length]) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [plain_keys(part) for part in node.expressions]
            if 1 << len(parts) > MOST_SETS:
                refuse(f"{construct_name(node)} of so many elements", node)
            lengths = range(len(parts), -1, -1)
            return [_together(chosen) for length in lengths for chosen in combinations(parts, length)]
        case exp.GroupingSets():
            return [found for part in node.expressions for found in _sets(part, refuse)]
        case _:
            return [plain_keys(node)]


def _together(elements: Sequence[Parts]) -> Parts:
    return tuple(part for element in elements for part in element)


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
    own = isinstance(scalar, Column) and scalar.index in scope.fields.by_name.ids
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
    return bool(scope.fields.matching(name, ""))


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
    known: list[Key] = field(default_factory=list)
    """The keys that ``columns`` has, which are a prefix of all."""
    columns: dict[Scalar, Column] = field(default_factory=dict)
    """By the scalars that are keys, the first column of each."""

    @property
    def keys(self) -> list[Key]:
        """The keys so far."""
        return self.grouped_by.keys

    def over_groups(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """The scalar with keys for the parts that equal them; ProgrammingError if other columns remain."""
        result = self._replaced(scalar)
        stray = used(result, self.binding.subqueries) & self.scope.fields.by_name.ids
        stray -= {key.column.index for key in self.keys} if stray else frozenset()
        if not stray:
            return result
        own = {known.column.index: known.column for known in self.scope.fields}
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
            own = self.scope.fields.by_name.ids
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
        for group_key in self.keys[len(self.known) :]:
            self.known.append(group_key)
            self.columns.setdefault(group_key.scalar, group_key.column)
        key_column = self.columns.get(scalar)
        if key_column is not None:
            return key_column
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
