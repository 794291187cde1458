"""SELECT: FROM, WHERE, grouping, select list, DISTINCT and ORDER BY of one query block.

``*`` supports EXCLUDE, REPLACE and RENAME.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.sql.bind.aggregate import Grouping, Item, Keys, bind_keys, grouped
from kpg.compiler.sql.bind.calls import comparable
from kpg.compiler.sql.bind.composite import fields_of_row
from kpg.compiler.sql.bind.from_clause import bind_from
from kpg.compiler.sql.bind.functions import alias_of, default_name
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query_output import numbered, order_within, sort_key
from kpg.compiler.sql.bind.row_functions import expanded, taken
from kpg.compiler.sql.bind.scope import Aggregates, Binding, Expansions, Field, Scope, Windows, as_columns
from kpg.compiler.sql.bind.volatile_calls import mentions_volatile, timed
from kpg.compiler.sql.bind.windows import bind_qualify, define_windows, over_groups, windowed
from kpg.compiler.sql.bound_tree import Distinct, Filter, Node, Query, SortKey, TopK
from kpg.compiler.sql.parse.syntax import only
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar

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


Written = list[tuple[Scalar, exp.Expr]]
"""Scalars, and how each was written."""


@dataclass(frozen=True, slots=True)
class _Clauses:
    """What the clauses that follow grouping are bound to: over rows, then over groups if there are some."""

    items: list[Item]
    having: Scalar | None
    qualify: tuple[Scalar, ...]
    distinct_on: Written
    order: Written

    def over(self, grouping: Grouping, node: exp.Select) -> "_Clauses":
        """The same over the groups; refused where something is neither grouped nor aggregated."""

        def all_over(scalars: Written) -> Written:
            return [(grouping.over_groups(scalar, key), key) for scalar, key in scalars]

        items = [replace(one, scalar=grouping.over_groups(one.scalar, one.syntax)) for one in self.items]
        having = None if self.having is None else grouping.over_groups(self.having, node)
        order, distinct_on = all_over(self.order), all_over(self.distinct_on)
        qualify = tuple(grouping.over_groups(scalar, node) for scalar in self.qualify)
        return _Clauses(items, having, qualify, distinct_on, order)


def bind_select(binding: Binding, around: Scope, node: exp.Select) -> tuple[Query, tuple[SortKey, ...]]:
    """The query of a SELECT block without its LIMIT, and its order."""
    only(node, binding.source, *CLAUSES)
    scope = Scope(around.parent, common=around.common)
    source = _where(binding, scope, _from(binding, scope, node), node)
    collector = Aggregates(number=partial(numbered, binding, source, scope.orders))
    windows = Windows()
    inner = replace(scope, aggregates=collector, windows=windows, expansions=Expansions())
    define_windows(binding, inner, node)
    items = select_items(binding, inner, node.expressions)
    keys = bind_keys(binding, inner, node, items)
    clauses = _Clauses(
        items,
        _having(binding, inner, node),
        bind_qualify(binding, inner, items, node),
        _distinct_on(binding, inner, items, node),
        _order_scalars(binding, inner, items, node),
    )
    if node.args.get("locks"):
        from kpg.compiler.sql.bind.row_locks import check_locks  # lazy: FOR UPDATE

        check_locks(binding, scope, node, (collector, windows, inner.expansions or Expansions()))
    expansions, kept_order = inner.expansions or Expansions(), order_within(source, scope.orders)
    source = collector.numbered[0] if collector.numbered is not None else source
    if node.args.get("group") is not None or collector.all_ids or clauses.having is not None:
        source, expansions = _before_groups(binding, source, keys, expansions)
        grouping = Grouping(binding, inner, keys, source)
        grouping.check_direct(collector)
        clauses = clauses.over(grouping, node)
        _expand_over(grouping, expansions, node)
        over_groups(windows, grouping, node)
        source, kept_order = grouping.numbered(grouped(binding, source, keys, collector)), ()
        if clauses.having is not None:
            source = Filter(source, conjuncts(clauses.having))
    if windows.calls:
        source = windowed(binding, source, windows, scope.orders)
    if clauses.qualify:
        source = Filter(source, clauses.qualify)
    source = expanded(source, expansions)
    query, ordering = _output(binding, source, clauses, node)
    reordered = clauses.order or windows.calls or node.args.get("distinct") is not None
    return query, ordering if reordered else kept_order


def _locked_names(node: exp.Select) -> frozenset[str] | None:
    """Of the relations of FROM those whose rows the query locks, by their aliases; None if all."""
    named = [
        {table.name.lower() for table in lock.expressions or ()} for lock in node.args.get("locks") or ()
    ]
    return frozenset().union(*named) if all(named) else None


def _from(binding: Binding, scope: Scope, node: exp.Select) -> Node:
    """The rows of FROM, of which FOR UPDATE and its like say that they are locked."""
    locked, located = binding.locked, binding.located
    binding.located = bool(node.args.get("locks")) or (located and binding.governed)
    binding.locked = _locked_names(node)
    try:
        source = bind_from(binding, scope, node)
    finally:
        binding.locked, binding.located = locked, located
    if not binding.kept and mentions_volatile(binding.source):
        from kpg.compiler.sql.bind.per_row_calls import with_numbers  # lazy: volatile calls

        return with_numbers(binding, scope, source, node)
    return source


def _where(binding: Binding, scope: Scope, source: Node, node: exp.Select) -> Node:
    where = node.args.get("where")
    if where is None:
        return source
    inner = replace(scope.without_aggregates("WHERE"), clocked=True)
    predicate = bind_condition(binding, inner, where.this, "WHERE")
    source, predicates = timed(binding, source, conjuncts(predicate), where)
    return Filter(source, predicates)


def _having(binding: Binding, inner: Scope, node: exp.Select) -> Scalar | None:
    having = node.args.get("having")
    if having is None:
        return None
    return bind_condition(binding, inner.without_windows("HAVING"), having.this, "HAVING")


def _expand_over(grouping: Grouping, expansions: Expansions, node: exp.Select) -> None:
    """Have calls that make rows make them of groups."""
    for place, call in enumerate(expansions.calls):
        over = tuple(grouping.over_groups(arg, node) for arg in call.args)
        expansions.calls[place] = replace(call, args=over)


def _before_groups(
    binding: Binding, source: Node, keys: Keys, expansions: Expansions
) -> tuple[Node, Expansions]:
    """The source with the rows that group keys are made of, and the calls that are left for the groups."""
    first, rest = taken(binding, expansions, [key.scalar for key in keys.keys])
    return expanded(source, first), rest


def _output(
    binding: Binding, source: Node, clauses: _Clauses, node: exp.Select
) -> tuple[Query, tuple[SortKey, ...]]:
    distinct = node.args.get("distinct")
    items, order, distinct_on = clauses.items, clauses.order, clauses.distinct_on
    values = [item.scalar for item in items]
    ordering = [scalar for scalar, _ in order]
    if distinct is not None and not distinct_on:
        for scalar, syntax in order:
            if scalar not in values:
                binding.wrong("ORDER BY of SELECT DISTINCT needs a column of the select list", syntax)
    grouping = [scalar for scalar, _ in distinct_on]
    leading = [*takewhile(grouping.__contains__, ordering)]
    if len(leading) < len(ordering) and not set(grouping) <= set(leading) and grouping:
        message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
        binding.wrong(message, distinct_on[0][1])
    others = [scalar for scalar in dict.fromkeys((*ordering, *grouping)) if scalar not in values]
    source, columns = as_columns(binding, source, [*values, *others])
    outputs = columns[: len(values)]
    known = dict(zip(reversed((*values, *others)), reversed(columns), strict=True))
    keys = tuple(sort_key(binding, syntax, known[scalar]) for scalar, syntax in order)
    if distinct_on:
        group = tuple(dict.fromkeys(known[scalar] for scalar in grouping))
        source = TopK(source, group, keys, 1, 0)
    elif distinct is not None:
        for output in outputs:
            comparable(binding, output.type, "equality", node)
        source = Distinct(source, tuple(dict.fromkeys(outputs)))
    return Query(source, outputs, tuple(item.name for item in items)), keys


def select_items(binding: Binding, scope: Scope, parts: Sequence[exp.Expr]) -> list[Item]:
    """The columns that a select list, or RETURNING, gives."""
    items: list[Item] = []
    for part in parts:
        if isinstance(part, exp.Star) or (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)):
            items += _star(binding, scope, part)
            continue
        if isinstance(part, exp.Dot) and isinstance(part.expression, exp.Star):
            fields = fields_of_row(binding, binding.expression(scope, part.this), part)
            items += [Item(name, scalar, part) for name, scalar in fields]
            continue
        syntax = part
        if isinstance(part, exp.Alias):
            only(part, binding.source, "this", "alias")
            syntax = part.this
        if isinstance(syntax, exp.Cast) and isinstance(syntax.args.get("to"), exp.ObjectIdentifier):
            syntax = _shown(syntax)
        items.append(Item(alias_of(part) or default_name(syntax), binding.expression(scope, syntax), syntax))
    return items


def _shown(node: exp.Cast) -> exp.Expr:
    """A name that is cast to regclass is shown as a name, though elsewhere it is a number."""
    from kpg.compiler.sql.bind.system import named_by_number  # lazy: the system catalogs

    select = node.find_ancestor(exp.Select)
    if select is not None and isinstance(select.parent, exp.SetOperation):
        return node  # as the columns of the other side are
    return exp.Cast(this=node.copy(), to=exp.DataType.build("text")) if named_by_number(node) else node


def _star(binding: Binding, scope: Scope, node: exp.Expr) -> list[Item]:
    star = node.this if isinstance(node, exp.Column) else node
    only(star, binding.source, "except_", "replace", "rename")
    if isinstance(node, exp.Column):
        only(node, binding.source, "this", "table")
        own = [known for known in scope.fields if known.relation.lower() == node.table.lower()]
        fields = [known for known in own if not known.of_system]
        if not fields:
            binding.wrong(f'missing FROM entry for "{node.table}"', node)
    else:
        fields = scope.visible()
        select = node.find_ancestor(exp.Select)
        if not fields and (select is None or select.args.get("from_") is None):
            binding.wrong("SELECT * needs a FROM", node)
    binding.use(fields)
    if not any(star.args.get(part) for part in ("except_", "replace", "rename")):
        return [Item(known.name, known.column, node) for known in fields]

    made = shown(binding, star, fields, lambda part: binding.expression(scope, part))
    return [Item(name, scalar, node) for name, scalar in made]


def output_column(
    binding: Binding, names: Sequence[str], columns: Sequence[Column], node: exp.Expr
) -> Column | None:
    """The output column that ORDER BY or GROUP BY means by a name or position; None if it means neither."""
    if isinstance(node, exp.Literal):
        if node.is_string:
            binding.wrong("non-integer constant in ORDER BY", node)
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(columns):
            binding.wrong(f"position {node.name} is not in the select list", node)
        return columns[int(node.name) - 1]
    if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
        found = {c for name, c in zip(names, columns, strict=True) if name.lower() == node.name.lower()}
        if len(found) > 1:
            binding.wrong(f'column "{node.name}" is ambiguous', node)
        return found.pop() if found else None
    return None


def _output_scalar(binding: Binding, items: list[Item], node: exp.Expr) -> Scalar | None:
    places = [Column(index, item.scalar.type) for index, item in enumerate(items)]
    if isinstance(node, exp.Column):
        named = {item.scalar: place for item, place in zip(items, places, strict=True)}
        places = [named[item.scalar] for item in items]
    place = output_column(binding, [item.name for item in items], places, node)
    return None if place is None else items[place.index].scalar


def _order_scalars(binding: Binding, scope: Scope, items: list[Item], node: exp.Select) -> Written:
    clause = node.args.get("order")
    if clause is None:
        return []
    only(clause, binding.source, "expressions")
    result: Written = []
    if _is_all(clause):
        return [(item.scalar, clause.expressions[0]) for item in items]
    for ordered in clause.expressions:
        scalar = _output_scalar(binding, items, ordered.this)
        result.append((scalar or binding.expression(scope, ordered.this), ordered))
    return result


def _is_all(clause: exp.Expr) -> bool:
    """Whether it is ORDER BY ALL: by all columns, in their order."""
    match clause.expressions:
        case [exp.Ordered(this=exp.Var() as word)]:
            return str(word.name).upper() == "ALL"
        case _:
            return False


def _distinct_on(binding: Binding, scope: Scope, items: list[Item], node: exp.Select) -> Written:
    distinct = node.args.get("distinct")
    if distinct is None:
        return []
    only(distinct, binding.source, "on")
    on = distinct.args.get("on")
    if on is None:
        return []
    parts = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
    return [(_output_scalar(binding, items, p) or binding.expression(scope, p), p) for p in parts]


def shown(
    binding: Binding, star: exp.Expr, fields: list[Field], bind: Callable[[exp.Expr], Scalar]
) -> list[tuple[str, Scalar]]:
    """The columns that a star stands for, with their names."""
    excluded = _named(binding, star.args.get("except_"), fields)
    renamed = {one.this.name.lower(): one.alias for one in star.args.get("rename") or []}
    replaced = {one.alias.lower(): one.this for one in star.args.get("replace") or []}
    for name, node in (*renamed.items(), *replaced.items()):
        _check(binding, name, fields, star if isinstance(node, str) else node)
    found: list[tuple[str, Scalar]] = []
    for known in fields:
        name = known.name.lower()
        if name in excluded:
            continue
        value = bind(replaced[name]) if name in replaced else known.column
        found.append((renamed.get(name, known.name), value))
    if not found:
        binding.wrong("EXCLUDE leaves no columns", star)
    return found


def _named(binding: Binding, parts: list[exp.Expr] | None, fields: list[Field]) -> set[str]:
    for part in parts or []:
        _check(binding, part.name, fields, part)
    return {part.name.lower() for part in parts or []}


def _check(binding: Binding, name: str, fields: list[Field], node: exp.Expr) -> None:
    if name.lower() not in (known.name.lower() for known in fields):
        hint = did_you_mean(name, (known.name for known in fields))
        binding.wrong(f'column "{name}" does not exist', node, hint)
