"""SELECT: FROM, WHERE, grouping, select list, DISTINCT and ORDER BY of one query block.

``*`` supports EXCLUDE, REPLACE and RENAME.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.sql.bind.aggregate import Grouping, GroupKeys, SelectItem, bind_group_keys, group_rows
from kpg.compiler.sql.bind.calls import check_comparable
from kpg.compiler.sql.bind.composite import row_fields
from kpg.compiler.sql.bind.from_clause import bind_from
from kpg.compiler.sql.bind.functions import alias_of, default_name
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query_output import bind_sort_key, inherited_order, with_row_order
from kpg.compiler.sql.bind.row_functions import expand_calls, split_calls
from kpg.compiler.sql.bind.scope import (
    AggregateCollector,
    Binding,
    Field,
    Scope,
    SetReturningCalls,
    WindowCollector,
    as_columns,
)
from kpg.compiler.sql.bind.volatile_calls import join_clocks
from kpg.compiler.sql.bind.windows import bind_qualify, compute_windows, define_windows, move_over_groups
from kpg.compiler.sql.bound_tree import Distinct, Filter, Node, Query, SortKey, TopK
from kpg.compiler.sql.parse.syntax import allow_only
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import per_row_calls, row_locks
    from kpg.compiler.sql.bind import system as system_functions
else:
    per_row_calls = LazyModule("kpg.compiler.sql.bind.per_row_calls")
    row_locks = LazyModule("kpg.compiler.sql.bind.row_locks")
    system_functions = LazyModule("kpg.compiler.sql.bind.system")

CLAUSES: Final = frozenset(
    {
        "with_",
        "expressions",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "windows",
        "qualify",
        "order",
        "limit",
        "offset",
        "locks",
    }
)
"""The parts of a SELECT that are bound here."""


ScalarsWithSyntax = list[tuple[Scalar, exp.Expr]]
"""Bound scalars, each with its syntax."""


@dataclass(frozen=True, slots=True)
class _Clauses:
    """The bound clauses that follow grouping: over input rows, or over groups if there are any."""

    items: list[SelectItem]
    having: Scalar | None
    qualify: tuple[Scalar, ...]
    distinct_on: ScalarsWithSyntax
    order: ScalarsWithSyntax

    def over_groups(self, grouping: Grouping, node: exp.Select) -> "_Clauses":
        """Return the clauses over groups.

        Raises ProgrammingError for a column that is neither grouped nor aggregated.
        """

        def pairs_over_groups(scalars: ScalarsWithSyntax) -> ScalarsWithSyntax:
            return [(grouping.over_groups(scalar, key), key) for scalar, key in scalars]

        items = [replace(one, scalar=grouping.over_groups(one.scalar, one.syntax)) for one in self.items]
        having = None if self.having is None else grouping.over_groups(self.having, node)
        order, distinct_on = pairs_over_groups(self.order), pairs_over_groups(self.distinct_on)
        qualify = tuple(grouping.over_groups(scalar, node) for scalar in self.qualify)
        return _Clauses(items, having, qualify, distinct_on, order)


def bind_select(binding: Binding, around: Scope, node: exp.Select) -> tuple[Query, tuple[SortKey, ...]]:
    """Bind a SELECT block without its LIMIT; return the query and its row order."""
    allow_only(node, binding.source, *CLAUSES)
    scope = Scope(around.parent, common_tables=around.common_tables)
    source = _bind_where(binding, scope, _bind_from_clause(binding, scope, node), node)
    collector = AggregateCollector(order_source=partial(with_row_order, binding, source, scope.orders))
    windows = WindowCollector()
    inner = replace(scope, aggregates=collector, windows=windows, set_returning_calls=SetReturningCalls())
    define_windows(binding, inner, node)
    items = bind_select_items(binding, inner, node.expressions)
    keys = bind_group_keys(binding, inner, node, items)
    clauses = _Clauses(
        items,
        _bind_having(binding, inner, node),
        bind_qualify(binding, inner, items, node),
        _bind_distinct_on(binding, inner, items, node),
        _bind_order(binding, inner, items, node),
    )
    if node.args.get("locks"):
        row_locks.check_locks(
            binding, scope, node, (collector, windows, inner.set_returning_calls or SetReturningCalls())
        )
    expansions, kept_order = (
        inner.set_returning_calls or SetReturningCalls(),
        inherited_order(source, scope.orders),
    )
    source = collector.ordered_source[0] if collector.ordered_source is not None else source
    if node.args.get("group") is not None or collector.group_only_ids or clauses.having is not None:
        source, expansions = _expand_key_calls(binding, source, keys, expansions)
        grouping = Grouping(binding, inner, keys, source)
        grouping.check_direct_args(collector)
        clauses = clauses.over_groups(grouping, node)
        _move_calls_over_groups(grouping, expansions, node)
        move_over_groups(windows, grouping, node)
        source, kept_order = grouping.number_groups(group_rows(binding, source, keys, collector)), ()
        if clauses.having is not None:
            source = Filter(source, conjuncts(clauses.having))
    if windows.calls:
        source = compute_windows(binding, source, windows, scope.orders)
    if clauses.qualify:
        source = Filter(source, clauses.qualify)
    source = expand_calls(source, expansions)
    query, ordering = _project_output(binding, source, clauses, node)
    reordered = clauses.order or windows.calls or node.args.get("distinct") is not None
    return query, ordering if reordered else kept_order


def _locked_aliases(node: exp.Select) -> frozenset[str] | None:
    """Return the lower-case aliases of the relations that the query locks; None if it locks all."""
    named = [
        {table.name.lower() for table in lock.expressions or ()} for lock in node.args.get("locks") or ()
    ]
    return frozenset().union(*named) if all(named) else None


def _bind_from_clause(binding: Binding, scope: Scope, node: exp.Select) -> Node:
    """Bind FROM, with the row locks of FOR UPDATE and its variants."""
    locked, located = binding.locked_aliases, binding.needs_row_location
    binding.needs_row_location = bool(node.args.get("locks")) or (located and binding.skips_policies)
    binding.locked_aliases = _locked_aliases(node)
    try:
        source = bind_from(binding, scope, node)
    finally:
        binding.locked_aliases, binding.needs_row_location = locked, located
    if not binding.is_view and binding.features.calls_volatile:
        return per_row_calls.number_rows_for_calls(binding, scope, source, node)
    return source


def _bind_where(binding: Binding, scope: Scope, source: Node, node: exp.Select) -> Node:
    where = node.args.get("where")
    if where is None:
        return source
    inner = replace(scope.without_aggregates("WHERE"), allows_clock=True)
    predicate = bind_condition(binding, inner, where.this, "WHERE")
    source, predicates = join_clocks(binding, source, conjuncts(predicate), where)
    return Filter(source, predicates)


def _bind_having(binding: Binding, inner: Scope, node: exp.Select) -> Scalar | None:
    having = node.args.get("having")
    if having is None:
        return None
    return bind_condition(binding, inner.without_windows("HAVING"), having.this, "HAVING")


def _move_calls_over_groups(grouping: Grouping, expansions: SetReturningCalls, node: exp.Select) -> None:
    """Replace the arguments of set-returning calls by expressions over groups."""
    for place, call in enumerate(expansions.calls):
        over = tuple(grouping.over_groups(arg, node) for arg in call.args)
        expansions.calls[place] = replace(call, args=over)


def _expand_key_calls(
    binding: Binding, source: Node, keys: GroupKeys, expansions: SetReturningCalls
) -> tuple[Node, SetReturningCalls]:
    """Expand the calls that group keys use before grouping; return the remaining calls too."""
    first, rest = split_calls(binding, expansions, [key.scalar for key in keys.keys])
    return expand_calls(source, first), rest


def _project_output(
    binding: Binding, source: Node, clauses: _Clauses, node: exp.Select
) -> tuple[Query, tuple[SortKey, ...]]:
    distinct = node.args.get("distinct")
    items, order, distinct_on = clauses.items, clauses.order, clauses.distinct_on
    values = [item.scalar for item in items]
    ordering = [scalar for scalar, _ in order]
    if distinct is not None and not distinct_on:
        for scalar, syntax in order:
            if scalar not in values:
                binding.fail("ORDER BY of SELECT DISTINCT needs a column of the select list", syntax)
    grouping = [scalar for scalar, _ in distinct_on]
    leading = [*takewhile(grouping.__contains__, ordering)]
    if len(leading) < len(ordering) and not set(grouping) <= set(leading) and grouping:
        message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
        binding.fail(message, distinct_on[0][1])
    others = [scalar for scalar in dict.fromkeys((*ordering, *grouping)) if scalar not in values]
    source, columns = as_columns(binding, source, [*values, *others])
    outputs = columns[: len(values)]
    known = dict(zip(reversed((*values, *others)), reversed(columns), strict=True))
    keys = tuple(bind_sort_key(binding, syntax, known[scalar]) for scalar, syntax in order)
    if distinct_on:
        group = tuple(dict.fromkeys(known[scalar] for scalar in grouping))
        source = TopK(source, group, keys, 1, 0)
    elif distinct is not None:
        for output in outputs:
            check_comparable(binding, output.type, "equality", node)
        source = Distinct(source, tuple(dict.fromkeys(outputs)))
    return Query(source, outputs, tuple(item.name for item in items)), keys


def bind_select_items(binding: Binding, scope: Scope, parts: Sequence[exp.Expr]) -> list[SelectItem]:
    """Bind a select list or RETURNING."""
    items: list[SelectItem] = []
    for part in parts:
        if isinstance(part, exp.Star) or (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)):
            items += _bind_star(binding, scope, part)
            continue
        if isinstance(part, exp.Dot) and isinstance(part.expression, exp.Star):
            fields = row_fields(binding, binding.expression(scope, part.this), part)
            items += [SelectItem(name, scalar, part) for name, scalar in fields]
            continue
        syntax = part
        if isinstance(part, exp.Alias):
            allow_only(part, binding.source, "this", "alias")
            syntax = part.this
        if isinstance(syntax, exp.Cast) and isinstance(syntax.args.get("to"), exp.ObjectIdentifier):
            syntax = _as_object_name(syntax)
        items.append(
            SelectItem(alias_of(part) or default_name(syntax), binding.expression(scope, syntax), syntax)
        )
    return items


def _as_object_name(node: exp.Cast) -> exp.Expr:
    """Return a cast of a name to regclass or regtype with a cast to text around it.

    A select list shows the name, while other expressions use the OID. Columns of set operations keep
    it.
    """
    select = node.find_ancestor(exp.Select)
    if select is not None and isinstance(select.parent, exp.SetOperation):
        return node  # so that its type equals that of the other side
    return (
        exp.Cast(this=node.copy(), to=exp.DataType.build("text"))
        if system_functions.is_object_name_cast(node)
        else node
    )


def _bind_star(binding: Binding, scope: Scope, node: exp.Expr) -> list[SelectItem]:
    star = node.this if isinstance(node, exp.Column) else node
    allow_only(star, binding.source, "except_", "replace", "rename")
    if isinstance(node, exp.Column):
        allow_only(node, binding.source, "this", "table")
        own = [known for known in scope.fields if known.relation.lower() == node.table.lower()]
        fields = [known for known in own if not known.is_system]
        if not fields:
            binding.fail(f'missing FROM entry for "{node.table}"', node)
    else:
        fields = scope.star_fields()
        select = node.find_ancestor(exp.Select)
        if not fields and (select is None or select.args.get("from_") is None):
            binding.fail("SELECT * needs a FROM", node)
    binding.record_use(fields)
    if not any(star.args.get(part) for part in ("except_", "replace", "rename")):
        return [SelectItem(known.name, known.column, node) for known in fields]

    made = expand_star(binding, star, fields, lambda part: binding.expression(scope, part))
    return [SelectItem(name, scalar, node) for name, scalar in made]


def find_output_column(
    binding: Binding, names: Sequence[str], columns: Sequence[Column], node: exp.Expr
) -> Column | None:
    """Return the output column that ORDER BY or GROUP BY refers to by name or position, else None."""
    if isinstance(node, exp.Literal):
        if node.is_string:
            binding.fail("non-integer constant in ORDER BY", node)
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(columns):
            binding.fail(f"position {node.name} is not in the select list", node)
        return columns[int(node.name) - 1]
    if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
        found = {c for name, c in zip(names, columns, strict=True) if name.lower() == node.name.lower()}
        if len(found) > 1:
            binding.fail(f'column "{node.name}" is ambiguous', node)
        return found.pop() if found else None
    return None


def _find_output_scalar(binding: Binding, items: list[SelectItem], node: exp.Expr) -> Scalar | None:
    places = [Column(index, item.scalar.type) for index, item in enumerate(items)]
    if isinstance(node, exp.Column):
        named = {item.scalar: place for item, place in zip(items, places, strict=True)}
        places = [named[item.scalar] for item in items]
    place = find_output_column(binding, [item.name for item in items], places, node)
    return None if place is None else items[place.index].scalar


def _bind_order(
    binding: Binding, scope: Scope, items: list[SelectItem], node: exp.Select
) -> ScalarsWithSyntax:
    clause = node.args.get("order")
    if clause is None:
        return []
    allow_only(clause, binding.source, "expressions")
    result: ScalarsWithSyntax = []
    if _is_order_by_all(clause):
        return [(item.scalar, clause.expressions[0]) for item in items]
    for ordered in clause.expressions:
        scalar = _find_output_scalar(binding, items, ordered.this)
        result.append((scalar or binding.expression(scope, ordered.this), ordered))
    return result


def _is_order_by_all(clause: exp.Expr) -> bool:
    """Return whether the clause is ORDER BY ALL."""
    match clause.expressions:
        case [exp.Ordered(this=exp.Var() as word)]:
            return str(word.name).upper() == "ALL"
        case _:
            return False


def _bind_distinct_on(
    binding: Binding, scope: Scope, items: list[SelectItem], node: exp.Select
) -> ScalarsWithSyntax:
    distinct = node.args.get("distinct")
    if distinct is None:
        return []
    allow_only(distinct, binding.source, "on")
    on = distinct.args.get("on")
    if on is None:
        return []
    parts = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
    return [(_find_output_scalar(binding, items, p) or binding.expression(scope, p), p) for p in parts]


def expand_star(
    binding: Binding, star: exp.Expr, fields: list[Field], bind: Callable[[exp.Expr], Scalar]
) -> list[tuple[str, Scalar]]:
    """Return the names and scalars of a star's columns, with EXCLUDE, RENAME and REPLACE applied."""
    excluded = _excluded_names(binding, star.args.get("except_"), fields)
    renamed = {one.this.name.lower(): one.alias for one in star.args.get("rename") or []}
    replaced = {one.alias.lower(): one.this for one in star.args.get("replace") or []}
    for name, node in (*renamed.items(), *replaced.items()):
        _check_column_exists(binding, name, fields, star if isinstance(node, str) else node)
    found: list[tuple[str, Scalar]] = []
    for known in fields:
        name = known.name.lower()
        if name in excluded:
            continue
        value = bind(replaced[name]) if name in replaced else known.column
        found.append((renamed.get(name, known.name), value))
    if not found:
        binding.fail("EXCLUDE leaves no columns", star)
    return found


def _excluded_names(binding: Binding, parts: list[exp.Expr] | None, fields: list[Field]) -> set[str]:
    for part in parts or []:
        _check_column_exists(binding, part.name, fields, part)
    return {part.name.lower() for part in parts or []}


def _check_column_exists(binding: Binding, name: str, fields: list[Field], node: exp.Expr) -> None:
    if name.lower() not in (known.name.lower() for known in fields):
        hint = did_you_mean(name, (known.name for known in fields))
        binding.fail(f'column "{name}" does not exist', node, hint)
