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
    call,
    check_comparable,
    coerce,
    coerce_at,
    coerce_to_boolean,
    coerce_to_common,
    decompose_over_words,
    default_to_text,
    require_extension,
)
from kpg.compiler.sql.bind.functions import AggregateSyntax, aggregate_of, as_list
from kpg.compiler.sql.bind.scope import (
    ROW_NUMBER,
    AggregateCollector,
    Binding,
    GroupingCall,
    Scope,
    resolve_name,
)
from kpg.compiler.sql.bound_tree import Group, GroupingSets, Ids, Node, Scan, Window, referenced_ids, walk
from kpg.compiler.sql.parse.syntax import allow_only, construct_name
from kpg.runtime.errors import Error
from kpg.runtime.functions import (
    AggregateFunction,
    CallForm,
    Composite,
    Direction,
    Maintenance,
    Part,
    common_type,
    exact_variant,
    lookup_aggregate,
    resolve_aggregate,
    specialize,
)
from kpg.runtime.functions.comparison import equality_key
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, children, with_children
from kpg.runtime.types import BIGINT, BOOLEAN, BYTEA, DOUBLE, INTEGER, NUMERIC, UNKNOWN


@dataclass(frozen=True, slots=True)
class Operands:
    """The bound operands of an aggregate call."""

    args: list[Scalar]
    distinct: bool = False
    keys: tuple[Scalar, ...] = ()
    """Sort keys of the aggregate's rows; ``order`` has their directions."""
    order: tuple[Direction, ...] = ()
    direct: list[tuple[Scalar, exp.Expr]] = field(default_factory=list)
    """Direct arguments, which have one value per group, with their syntax."""


def bind_operands(
    binding: Binding, scope: Scope, node: exp.Expr, aggregate: AggregateSyntax, within_group: exp.Expr | None
) -> Operands:
    """Bind the operands of an aggregate call. ``within_group`` is the ORDER BY of its WITHIN GROUP."""
    function = lookup_aggregate(aggregate.name)
    allow_only(node, binding.source, "this", *(name for name, part in node.args.items() if as_list(part)))
    if function.form is CallForm.PLAIN:
        if within_group is not None:
            binding.fail(
                f"{aggregate.display_name} takes no WITHIN GROUP",
                within_group,
                "write ORDER BY in the parentheses",
            )
        return _bind_plain_operands(binding, scope, node, aggregate)
    if within_group is None:
        binding.fail(f"{aggregate.display_name} needs WITHIN GROUP (ORDER BY ...)", node)
    for part in aggregate.args:
        if isinstance(part, exp.Distinct | exp.Order | exp.Star):
            binding.fail(f"{aggregate.display_name} takes plain arguments before WITHIN GROUP", node)
    keys, order = _bind_sort_keys(binding, scope, within_group.expressions)
    direct = [binding.expression(scope, arg) for arg in aggregate.args]
    written = list(zip(direct, aggregate.args, strict=True))
    if function.form is CallForm.ORDERED_SET:
        if len(keys) != 1:
            binding.fail(f"{aggregate.display_name} is ordered by one expression", within_group)
        fractions = [coerce_at(binding, arg, DOUBLE, node) if arg.type == UNKNOWN else arg for arg in direct]
        return Operands([keys[0], *fractions], False, keys, order, written)
    if len(keys) != len(direct):
        message = f"{aggregate.display_name} of {len(direct)} arguments is ordered by {len(keys)} expressions"
        binding.fail(message, node, "give an argument for each expression of ORDER BY")
    place = _hypothetical_position(binding, keys, direct, order, node)
    return Operands([place, *keys], False, (), (), written)


def _bind_sort_keys(
    binding: Binding, scope: Scope, parts: Sequence[exp.Expr]
) -> tuple[tuple[Scalar, ...], tuple[Direction, ...]]:
    keys, order = [], []
    for part in parts:
        allow_only(part, binding.source, "this", "desc", "nulls_first")
        keys.append(default_to_text(binding.expression(scope, part.this)))
        order.append(Direction(bool(part.args.get("desc")), bool(part.args.get("nulls_first"))))
    return tuple(keys), tuple(order)


def _hypothetical_position(
    binding: Binding,
    keys: Sequence[Scalar],
    values: Sequence[Scalar],
    order: Sequence[Direction],
    node: exp.Expr,
) -> Scalar:
    """Return -1, 0 or 1 if the keys sort before the values, are equal, or sort after them."""
    before, after = Literal(-1, INTEGER), Literal(1, INTEGER)
    result: Scalar = Literal(0, INTEGER)
    for group_key, value, direction in reversed(list(zip(keys, values, order, strict=True))):
        left, right = coerce_to_common(
            binding, [group_key, value], [node, node], "an argument and its ORDER BY", common_type
        )
        first, last = (after, before) if direction.descending else (before, after)
        null_key, null_value = (before, after) if direction.nulls_first else (after, before)
        smaller = If(call(binding, "lt", [left, right], node), first, last, INTEGER)
        known = If(Call("is_null", (right,), BOOLEAN), null_value, smaller, INTEGER)
        differs = If(Call("is_null", (left,), BOOLEAN), null_key, known, INTEGER)
        result = If(call(binding, "is_not_distinct", [left, right], node), result, differs, INTEGER)
    return result


def _bind_plain_operands(
    binding: Binding, scope: Scope, node: exp.Expr, aggregate: AggregateSyntax
) -> Operands:
    function = lookup_aggregate(aggregate.name)
    if not aggregate.args:
        binding.fail(f"{aggregate.display_name} takes {function.accepts}", node)
    parts, clause = _split_order(binding, aggregate.args, node, aggregate)
    keys, order = _bind_sort_keys(binding, scope, clause)
    operand, *others = parts
    distinct = isinstance(operand, exp.Distinct)
    if isinstance(operand, exp.Distinct):
        allow_only(operand, binding.source, "expressions")
        rows = _distinct_row_operands(binding, scope, operand, node, aggregate)
        if rows is not None:
            return Operands(rows, True, keys, order)
        operands, inner = _split_order(binding, operand.expressions, node, aggregate)
        more_keys, more = _bind_sort_keys(binding, scope, inner)
        keys, order = keys + more_keys, order + more
        operand, others = operands[0], [*operands[1:], *others]
    if isinstance(operand, exp.Star):
        if not function.is_nullary or distinct:
            binding.fail(f"{aggregate.display_name} does not take *", node)
        allow_only(operand, binding.source)
        return Operands([])
    if function.is_nullary and others:
        binding.fail(f"{aggregate.display_name} takes one argument", node)
    first = default_to_text(binding.expression(scope, operand))
    args = [first, *(_bind_further_operand(binding, scope, first, other) for other in others)]
    if function.keeps_nulls:
        args = [Literal(1, BOOLEAN), *args]
    return Operands(args, distinct, keys, order)


def _bind_further_operand(binding: Binding, scope: Scope, first: Scalar, node: exp.Expr) -> Scalar:
    """Bind an operand after the first. A quoted constant beside a BYTEA is a BYTEA."""
    value = binding.expression(scope, node)
    if value.type == UNKNOWN and first.type == BYTEA:
        return coerce_at(binding, value, BYTEA, node)
    return default_to_text(value)


def _split_order(
    binding: Binding, parts: Sequence[exp.Expr], node: exp.Expr, aggregate: AggregateSyntax
) -> tuple[list[exp.Expr], Sequence[exp.Expr]]:
    """Return the operands, at least one, without an ORDER BY, and its expressions."""
    clause: Sequence[exp.Expr] = ()
    result = []
    for part in parts:
        if isinstance(part, exp.Order):
            allow_only(part, binding.source, "this", "expressions")
            clause = part.expressions
            part = part.this
        if part is not None:
            result.append(part)
    if not result:
        binding.fail(f"{aggregate.display_name} needs an operand", node)
    return result, clause


def _distinct_row_operands(
    binding: Binding, scope: Scope, distinct: exp.Distinct, node: exp.Expr, aggregate: AggregateSyntax
) -> list[Scalar] | None:
    """Return the operands of ``count(DISTINCT (a, b))`` or ``count(DISTINCT a, b)``, else None.

    The first operand is NULL if the row does not count. A row in parentheses always counts (as in
    Postgres). Without parentheses, it counts if none of its values is NULL (as in Spark).
    """
    parts = distinct.expressions
    whole = len(parts) == 1 and isinstance(parts[0], exp.Tuple)
    if not lookup_aggregate(aggregate.name).is_nullary:
        if whole:
            binding.refuse(f"DISTINCT over several expressions in {aggregate.display_name}", node)
        return None
    if not parts or (len(parts) == 1 and not whole):
        return None
    operands = parts[0].expressions if whole else parts
    values = [default_to_text(binding.expression(scope, part)) for part in operands]
    one = Literal(1, INTEGER)
    if whole:
        return [one, *values]
    tests = [call(binding, "is_not_null", [value], node) for value in values]
    counted = If(call(binding, "and", tests, node), one, Literal(None, INTEGER), INTEGER)
    return [counted, *values]


MAX_GROUPING_KEYS: Final = 31
"""Maximum number of keys of GROUPING, one bit each."""


def bind_aggregate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind an aggregate call to a column of the groups, or to an expression over such columns."""
    return collect_aggregate(
        binding, scope, scope.without_aggregates("the argument of an aggregate"), None, node
    )


def collect_aggregate(
    binding: Binding, scope: Scope, operand_scope: Scope, collector: AggregateCollector | None, node: exp.Expr
) -> Scalar:
    """Bind an aggregate call whose operands are in scope ``operand_scope``, and add it to the collector.

    Without a collector, the call belongs to the query whose columns it aggregates.
    """
    kept = within = None
    aggregate = node
    if isinstance(aggregate, exp.Filter):
        allow_only(aggregate, binding.source, "this", "expression")
        kept, aggregate = aggregate.expression.this, aggregate.this
    if isinstance(aggregate, exp.WithinGroup):
        allow_only(aggregate, binding.source, "this", "expression")
        within, aggregate = aggregate.expression, aggregate.this
    called = aggregate_of(aggregate, binding.catalog.functions)
    if called is None:
        binding.refuse(f"aggregate {construct_name(aggregate)}", aggregate)
    operands = bind_operands(binding, operand_scope, aggregate, called, within)
    args = operands.args
    if kept is not None:
        test = coerce_to_boolean(binding, binding.expression(operand_scope, kept), kept, "FILTER")
        args = args or [Literal(1, BIGINT)]
        args = [If(test, args[0], Literal(None, args[0].type), args[0].type), *args[1:]]
    if collector is None:
        collector = _find_collector(binding, scope, [*args, *operands.keys], node)
    collector.direct_args += operands.direct
    return _collect_call(binding, collector, node, called, args, operands)


def bind_grouping(binding: Binding, scope: Scope, node: exp.Grouping) -> Scalar:
    """Bind GROUPING(keys...), a bit mask of the keys that a row's grouping set lacks."""
    allow_only(node, binding.source, "expressions")
    inner = scope.without_aggregates("GROUPING")
    keys = tuple(default_to_text(binding.expression(inner, part)) for part in node.expressions)
    if not 1 <= len(keys) <= MAX_GROUPING_KEYS:
        binding.fail(f"GROUPING takes 1 to {MAX_GROUPING_KEYS} expressions", node)
    into = _find_collector(binding, scope, keys, node)
    known = next((marker for marker in into.grouping_calls if marker.keys == keys), None)
    if known is None:
        known = GroupingCall(binding.new_id(), keys, node)
        into.grouping_calls.append(known)
    return Column(known.id, INTEGER)


def _find_collector(
    binding: Binding, scope: Scope, args: Sequence[Scalar], node: exp.Expr
) -> AggregateCollector:
    """Return the collector of the innermost query that owns a column of the operands."""
    needed = frozenset[int]().union(*(referenced_ids(arg, binding.subqueries) for arg in args))
    home = scope.owning_scope(needed)
    if home.aggregates is None:
        binding.fail(f"an aggregate is not allowed in {home.clause}", node)
    if home.aggregates.has_any(needed):
        binding.fail("an aggregate is not allowed in the argument of an aggregate", node)
    return home.aggregates


def _collect_call(
    binding: Binding,
    collector: AggregateCollector,
    node: exp.Expr,
    aggregate: AggregateSyntax,
    args: list[Scalar],
    operands: Operands,
) -> Scalar:
    """Return the aggregate as a group column, or as an expression over the columns of its components."""
    function = lookup_aggregate(aggregate.name)
    require_extension(binding, function, node)
    if operands.distinct and args and args[0].type.kind in function.exact_by_kind:
        args = [coerce(args[0], NUMERIC)]  # distinct values are few, so one state suffices
    types = tuple(arg.type for arg in args)
    function = exact_variant(specialize(function, types), types)
    signature = function.rule(types)
    if signature is None:
        shown = ", ".join(str(arg.type) for arg in args[function.keeps_nulls :])
        binding.fail(f"{aggregate.display_name} needs {function.accepts}, not {shown}", node)
    taken = tuple(coerce(arg, type_) for arg, type_ in zip(args, signature.args, strict=True))
    distinct = operands.distinct and not function.idempotent
    if distinct and function.accumulator is not None:
        taken = tuple(map(equality_key, taken))
    written = ", ".join(arg.sql("postgres") for arg in aggregate.args)
    maintenance: Maintenance = function.maintenance
    if taken and taken[0].type == NUMERIC and not distinct:
        maintenance, taken = decompose_over_words(function.name, taken) or (maintenance, taken)
    if not isinstance(maintenance, Composite):
        keys, order = _order_keys(binding, collector, function, taken, operands, node)
        text = f"{aggregate.name}({written})"
        return _aggregate_column(
            binding,
            collector,
            AggregateCall(function.name, (*taken, *keys), distinct, signature.result, order, text),
        )
    parts, result = maintenance.build(taken)
    whole = node.sql("postgres")
    made = [_component_call(part, taken, written, whole, distinct=distinct) for part in parts]
    return substitute(result, [_aggregate_column(binding, collector, call) for call in made])


def _component_call(
    component: Part, args: tuple[Scalar, ...], args_text: str, call_text: str, *, distinct: bool
) -> AggregateCall:
    """Return one component of a composed aggregate.

    ``args_text`` is the text of its arguments, ``call_text`` that of the call.
    """
    type_ = resolve_aggregate(component.function, tuple(arg.type for arg in component.args)).result_type
    own = component.args == args
    different = (distinct or component.distinct) and not lookup_aggregate(component.function).idempotent
    beside = tuple(arg for arg in args if arg not in component.args) if distinct and not own else ()
    operated = tuple(map(equality_key, component.args)) if different else component.args
    text = f"{component.function}({args_text})" if own else call_text
    return AggregateCall(component.function, (*operated, *beside), different, type_, text=text)


def _order_keys(
    binding: Binding,
    collector: AggregateCollector,
    function: AggregateFunction,
    args: tuple[Scalar, ...],
    operands: Operands,
    node: exp.Expr,
) -> tuple[tuple[Scalar, ...], tuple[Direction, ...]]:
    """Return the sort keys and directions of an order-sensitive aggregate; empty for any other."""
    if function.finish_in_order is None:
        return (), ()
    if function.form is CallForm.ORDERED_SET:
        return args[:1], operands.order
    if operands.distinct and not set(operands.keys) <= {*operands.args, *args}:
        hint = "order by its arguments"
        binding.fail("an aggregate with DISTINCT can only be ordered by its arguments", node, hint)
    if operands.distinct:
        return operands.keys, operands.order
    order = (*operands.order, *(Direction(by.descending, by.nulls_first) for by in collector.order))
    return (*map(equality_key, operands.keys), *(by.column for by in collector.order)), order


def _aggregate_column(binding: Binding, collector: AggregateCollector, aggregate: AggregateCall) -> Column:
    id_ = collector.id_of_call.get(aggregate)
    if id_ is None:
        id_ = collector.id_of_call[aggregate] = binding.new_id()
        collector.calls.append(aggregate)
        collector.ids.append(id_)
        collector.present.add(id_)
    return Column(id_, aggregate.type)


KeySyntax = tuple[exp.Expr, ...]
GroupingSetList = list[KeySyntax]
Refuse = Callable[[str, exp.Expr], None]
MAX_GROUPING_SETS: Final = 4096
"""Maximum number of grouping sets, as in Postgres."""


def has_grouping_sets(clause: exp.Group) -> bool:
    """Return whether the clause has ROLLUP, CUBE or GROUPING SETS."""
    return any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in clause.expressions)


def grouping_sets(elements: Sequence[exp.Expr], refuse: Refuse) -> GroupingSetList:
    """Return the cross product of the grouping sets of all elements.

    ``refuse`` raises an error if there are more than ``MAX_GROUPING_SETS``.
    """
    each = [_element_grouping_sets(element, refuse) for element in elements]
    if prod(map(len, each)) > MAX_GROUPING_SETS:
        refuse(f"GROUP BY with more than {MAX_GROUPING_SETS} grouping sets", elements[0])
    return [tuple(part for chosen in choice for part in chosen) for choice in product(*each)]


def flatten_keys(node: exp.Expr) -> KeySyntax:
    """Return the keys of an element without its parentheses."""
    match node:
        case exp.Paren():
            return flatten_keys(node.this)
        case exp.Tuple():
            return tuple(part for element in node.expressions for part in flatten_keys(element))
        case _:
            return (node,)


def _element_grouping_sets(node: exp.Expr, refuse: Refuse) -> GroupingSetList:
    """Return the grouping sets of one element of GROUP BY."""
    match node:
        case exp.Rollup():
            parts = [flatten_keys(part) for part in node.expressions]
            return [_concatenate(parts[:length]) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [flatten_keys(part) for part in node.expressions]
            if 1 << len(parts) > MAX_GROUPING_SETS:
                refuse(f"{construct_name(node)} of so many elements", node)
            lengths = range(len(parts), -1, -1)
            return [_concatenate(chosen) for length in lengths for chosen in combinations(parts, length)]
        case exp.GroupingSets():
            return [found for part in node.expressions for found in _element_grouping_sets(part, refuse)]
        case _:
            return [flatten_keys(node)]


def _concatenate(elements: Sequence[KeySyntax]) -> KeySyntax:
    return tuple(part for element in elements for part in element)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of a select list. Errors point to its ``syntax``."""

    name: str
    scalar: Scalar
    syntax: exp.Expr


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A group key: its value over the input rows, and its column in the groups."""

    scalar: Scalar
    column: Column


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """The keys of GROUP BY, and its grouping sets as positions in ``keys``; None for one set of all keys."""

    keys: list[GroupKey]
    """The written keys, then the columns that depend on them functionally."""
    sets: tuple[tuple[int, ...], ...] | None = None
    written_count: int = 0


def bind_group_keys(
    binding: Binding, scope: Scope, node: exp.Select, items: Sequence[SelectItem]
) -> GroupKeys:
    """Bind the keys of GROUP BY. A plain column keeps its id."""
    clause = node.args.get("group")
    if clause is None:
        return GroupKeys([])
    allow_only(clause, binding.source, "expressions", "all")
    if not clause.expressions:
        return _bind_group_by_all(binding, scope, items)
    keys: dict[Scalar, GroupKey] = {}
    numbers: dict[Scalar, int] = {}
    sets: list[tuple[int, ...]] = []
    for parts in grouping_sets(clause.expressions, binding.refuse):
        places = []
        for part in parts:
            scalar = default_to_text(_bind_key(binding, scope, items, part))
            if scalar not in keys:
                keys[scalar] = _new_key(binding, scope, scalar)
            places.append(numbers.setdefault(scalar, len(numbers)))
        sets.append(tuple(sorted(set(places))))
    found = list(keys.values())
    if not has_grouping_sets(clause):
        return GroupKeys(found)
    if clause.args.get("all") is False:
        sets = list(dict.fromkeys(sets))
    return GroupKeys(found, tuple(sets), len(found))


def _bind_group_by_all(binding: Binding, scope: Scope, items: Sequence[SelectItem]) -> GroupKeys:
    """Group by the select items that contain no aggregate and no window function."""
    collected = scope.aggregates.group_only_ids if scope.aggregates is not None else frozenset()
    if scope.windows is not None:
        collected |= frozenset(scope.windows.ids)
    plain = (default_to_text(item.scalar) for item in items)
    chosen = dict.fromkeys(s for s in plain if referenced_ids(s, binding.subqueries).isdisjoint(collected))
    return GroupKeys([_new_key(binding, scope, scalar) for scalar in chosen])


def _new_key(binding: Binding, scope: Scope, scalar: Scalar) -> GroupKey:
    own = isinstance(scalar, Column) and scalar.index in scope.fields.by_name.ids
    return GroupKey(
        scalar, scalar if own and isinstance(scalar, Column) else Column(binding.new_id(), scalar.type)
    )


def _bind_key(binding: Binding, scope: Scope, items: Sequence[SelectItem], part: exp.Expr) -> Scalar:
    """Bind a key given by position, input column, output name or expression."""
    named: list[SelectItem] = []
    if isinstance(part, exp.Literal) and not part.is_string:
        if not part.name.isdigit() or not 1 <= int(part.name) <= len(items):
            binding.fail(f"position {part.name} is not in the select list", part)
        named = [items[int(part.name) - 1]]
    elif isinstance(part, exp.Column) and not part.table and not _is_input_column(scope, part.name):
        named = [item for item in items if item.name.lower() == part.name.lower()]
    if not named:
        inner = replace(scope.without_aggregates("GROUP BY"), set_returning_calls=scope.set_returning_calls)
        found = binding.expression(inner, part)
        check_comparable(binding, found.type, "equality", part)
        return found
    check_comparable(binding, named[0].scalar.type, "equality", part)
    collected = scope.aggregates.group_only_ids if scope.aggregates is not None else frozenset()
    if not referenced_ids(named[0].scalar, binding.subqueries).isdisjoint(collected):
        binding.fail("an aggregate is not allowed in GROUP BY", part)
    over = scope.windows.ids if scope.windows is not None else []
    if not referenced_ids(named[0].scalar, binding.subqueries).isdisjoint(over):
        binding.fail("a window function is not allowed in GROUP BY", part)
    return named[0].scalar


def _is_input_column(scope: Scope, name: str) -> bool:
    return bool(scope.fields.matching(name, ""))


def group_rows(binding: Binding, source: Node, keys: GroupKeys, collector: AggregateCollector) -> Node:
    """Return the groups of the source with the collected aggregates."""
    ids, scalars = tuple(key.column.index for key in keys.keys), tuple(key.scalar for key in keys.keys)
    if keys.sets is None and not collector.grouping_calls:
        return Group(source, ids, scalars, tuple(collector.ids), tuple(collector.calls))
    every = tuple(range(len(keys.keys)))
    sets = (
        tuple(chosen + every[keys.written_count :] for chosen in keys.sets)
        if keys.sets is not None
        else (every,)
    )
    marked = tuple(_grouping_masks(binding, marker, scalars, sets) for marker in collector.grouping_calls)
    marks = tuple(marker.id for marker in collector.grouping_calls)
    calls = tuple(collector.calls)
    return GroupingSets(source, ids, scalars, tuple(collector.ids), calls, sets, marks, marked)


def _grouping_masks(
    binding: Binding, marker: GroupingCall, keys: tuple[Scalar, ...], sets: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """Return the bit mask of each grouping set: 1 for a key that it lacks, the last key in the lowest bit."""
    for scalar in marker.keys:
        if scalar not in keys:
            binding.fail("GROUPING takes expressions of GROUP BY", marker.syntax)
    places = [keys.index(scalar) for scalar in marker.keys]
    return tuple(int("".join("0" if place in chosen else "1" for place in places), 2) for chosen in sets)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rewrites expressions over input rows to expressions over groups.

    If the primary key of a table is among the keys, its other columns become keys when they are used.
    """

    binding: Binding
    scope: Scope
    group_keys: GroupKeys
    source: Node
    row_number_columns: list[Column] = field(default_factory=list)
    """Row number columns of the input that expressions over groups use."""
    known: list[GroupKey] = field(default_factory=list)
    """The keys that ``columns`` has, which are a prefix of all."""
    columns: dict[Scalar, Column] = field(default_factory=dict)
    """By the scalars that are keys, the first column of each."""

    @property
    def keys(self) -> list[GroupKey]:
        """The keys so far."""
        return self.group_keys.keys

    def over_groups(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """Return the scalar with its group keys replaced by columns of the groups.

        Raises:
            ProgrammingError: Another input column remains.
        """
        result = self._substitute_keys(scalar)
        stray = referenced_ids(result, self.binding.subqueries) & self.scope.fields.by_name.ids
        stray -= {key.column.index for key in self.keys} if stray else frozenset()
        if not stray:
            return result
        own = {known.column.index: known.column for known in self.scope.fields}
        telling = {one.column.index: one.column for one in self.scope.fields if one.name == ROW_NUMBER}
        self.row_number_columns.extend(telling[id_] for id_ in stray & telling.keys())
        stray -= telling.keys()
        if stray:
            brought = stray & self._dependent_ids()
            self.keys.extend(GroupKey(own[id_], own[id_]) for id_ in sorted(brought))
            stray -= brought
        if stray:
            place, name = self._locate_column(stray, node)
            self.binding.fail(
                f'column "{name}" must be in GROUP BY or inside an aggregate', place, "add it to GROUP BY"
            )
        return result

    def number_groups(self, groups: Node) -> Node:
        """Return the groups with row numbers, for volatile calls evaluated once per group."""
        for number in dict.fromkeys(self.row_number_columns):
            calls = (WindowCall("row_number", (), number.type),)
            groups = Window(groups, (), (), (), (number.index,), calls)
        return groups

    def check_direct_args(self, collector: AggregateCollector) -> None:
        """Refuse direct arguments that do not have one value per group."""
        for scalar, node in collector.direct_args:
            self.over_groups(scalar, node)
            own = self.scope.fields.by_name.ids
            if self.group_keys.sets is not None and referenced_ids(scalar, self.binding.subqueries) & own:
                self.binding.refuse("a key as an argument before WITHIN GROUP, beside grouping sets,", node)

    def _dependent_ids(self) -> Ids:
        """Return the columns of tables whose primary key is part of every grouping set."""
        keys, sets = self.keys, self.group_keys.sets
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

    def _substitute_keys(self, scalar: Scalar) -> Scalar:
        for group_key in self.keys[len(self.known) :]:
            self.known.append(group_key)
            self.columns.setdefault(group_key.scalar, group_key.column)
        key_column = self.columns.get(scalar)
        if key_column is not None:
            return key_column
        old = children(scalar)
        new = tuple(self._substitute_keys(child) for child in old)
        return scalar if new == old else with_children(scalar, new)

    def _locate_column(self, stray: frozenset[int], node: exp.Expr) -> tuple[exp.Expr, str]:
        """Return the syntax that names one of the stray columns, and its name."""
        for part in node.find_all(exp.Column):
            try:
                if resolve_name(self.binding, self.scope, part).column.index in stray:
                    return part, part.name
            except Error:
                continue
        name = next(known.name for known in self.scope.fields if known.column.index in stray)
        return node, name
