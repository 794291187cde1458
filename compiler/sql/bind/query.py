"""Queries: syntax trees to bound queries, names resolved and every scalar typed."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.permitted import may_refuse
from kpg.compiler.sql.bind.calls import comparable
from kpg.compiler.sql.bind.input_order import numbered
from kpg.compiler.sql.bind.limit import limited
from kpg.compiler.sql.bind.output import brought_query, combined, settled_query, united
from kpg.compiler.sql.bind.recursive import bind_mutual, bind_recursive, in_order, renamed_columns
from kpg.compiler.sql.bind.scalar import MAX_DEPTH, bind_expression
from kpg.compiler.sql.bind.scope import Binding, Common, Scope
from kpg.compiler.sql.bind.select import bind_select, output_column, sort_key
from kpg.compiler.sql.bind.values import bind_values
from kpg.compiler.sql.reads import Reads
from kpg.compiler.sql.syntax import construct_name, only
from kpg.compiler.sql.tree import Query, Resolved, Rows, SortKey, free
from kpg.runtime.functions import shown_type
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import Scalar
from kpg.runtime.types import UNKNOWN, Type
from kpg.runtime.values.styles import BINDING

SET_OPERATIONS = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}
MODIFIERS = ("with_", "order", "limit", "offset")


def new_binding(source: str, catalog: Catalog) -> Binding:
    """The state for binding one statement of the text ``source``."""
    binding: Binding
    BINDING.set(catalog.style)

    def expression(scope: Scope, node: exp.Expr) -> Scalar:
        return bind_expression(binding, scope, node)

    def query(parent: Scope | None, node: exp.Expr) -> Query:
        return bind_query(binding, parent, node)

    binding = Binding(source, catalog, expression, query)
    if may_refuse(catalog):
        binding.reads = Reads()
    return binding


def bind(node: exp.Expr, source: str, catalog: Catalog, *, kept: bool = False) -> Resolved:
    """The bound form of a whole query, or of the one that a view is."""
    binding = new_binding(source, catalog)
    binding.kept = kept
    return resolved(binding, settled_query(bind_query(binding, None, node)))


def resolved(binding: Binding, query: Query) -> Resolved:
    """The query with all that binding it has collected."""
    style = binding.catalog.style
    return Resolved(
        *(query, binding.subqueries, binding.shared, binding.loops, binding.fresh()), binding.reads, style
    )


def bind_query(binding: Binding, parent: Scope | None, node: exp.Expr) -> Query:
    """The bound form of a query within the scopes around it. Column types may still be UNKNOWN."""
    if binding.catalog.others and isinstance(node, exp.Select) and binding.catalog.aggregates:
        from kpg.compiler.sql.folds import folded

        node = folded(binding.catalog, node)
    checkpoint()
    binding.depth += 1
    if binding.depth > MAX_DEPTH:
        binding.refuse(f"nesting deeper than {MAX_DEPTH}", node)
    try:
        around = _with(binding, parent, node)
        return _bind_body(binding, around, node)
    finally:
        binding.depth -= 1


def _bind_body(binding: Binding, around: Scope, node: exp.Expr) -> Query:
    match node:
        case exp.Select():
            query, order = bind_select(binding, around, node)
        case exp.SetOperation():
            query = _set_operation(binding, around, node)
            order = _output_order(binding, query, node)
        case exp.Values():
            only(node, binding.source, "expressions", "alias", *MODIFIERS)
            query = bind_values(binding, around, node)
            order = _output_order(binding, query, node) or query.order
        case exp.Subquery() if isinstance(node.this, exp.Query | exp.Values):
            only(node, binding.source, "this", "alias", *MODIFIERS)
            query = bind_query(binding, around, node.this)
            order = _output_order(binding, query, node) or query.order
        case _:
            binding.refuse(construct_name(node), node)
    return limited(binding, query, order, node)


def with_scope(binding: Binding, clause: exp.Expr | None) -> Scope:
    """The names of WITH queries."""
    return Scope() if clause is None else with_queries(binding, None, clause)


def with_queries(binding: Binding, parent: Scope | None, clause: exp.Expr) -> Scope:
    """The names of WITH queries within those around them."""
    return _with(binding, parent, exp.Select(with_=clause.copy()))


def _with(binding: Binding, parent: Scope | None, node: exp.Expr) -> Scope:
    """The scope around the query's body: that of its WITH queries."""
    scope = Scope(parent)
    clause = node.args.get("with_")
    if clause is None:
        return scope
    only(clause, binding.source, "expressions", "recursive", "mutual")
    names: set[str] = set()
    if any(common.args.get("search") or common.args.get("cycle") for common in clause.expressions):
        clause = _with_traversals(binding, clause)
    for common in clause.expressions:
        only(common, binding.source, "this", "alias", "materialized")  # a hint, which changes no answer
        only(common.args["alias"], binding.source, "this", "columns")
        if common.alias.lower() in names:
            binding.wrong(f'WITH query "{common.alias}" is defined twice', common)
        names.add(common.alias.lower())
    if clause.args.get("mutual") is not None:
        bind_mutual(binding, scope, clause)
        return scope
    if clause.args.get("recursive"):
        clause = clause.copy()
        clause.set("expressions", in_order(clause))
    for common in clause.expressions:
        inner = replace(scope, common=dict(scope.common))
        recursive = bind_recursive(binding, inner, clause, common) if clause.args.get("recursive") else None
        scope.common[common.alias.lower()] = recursive or _common(binding, inner, common)
    return scope


def _with_traversals(binding: Binding, clause: exp.Expr) -> exp.Expr:
    from kpg.compiler.sql.bind.traversal import with_traversal

    if not clause.args.get("recursive"):
        binding.wrong("SEARCH and CYCLE need WITH RECURSIVE", clause)
    result = clause.copy()
    result.set("expressions", [with_traversal(binding, common) for common in clause.expressions])
    return result


def _common(binding: Binding, scope: Scope, node: exp.Expr) -> Common:
    name, renamed = node.alias, renamed_columns(binding, node)
    query = settled_query(binding.query(scope, node.this))
    if len(renamed) > len(query.columns):
        binding.wrong(f'"{name}" has {len(query.columns)} columns but {len(renamed)} are named', node)
    if free(query.node, binding.subqueries):
        return Common(name, node.this, renamed, scope, None)
    key = f"with {name} {binding.fresh()}"
    names = (*renamed, *query.names[len(renamed) :])
    if isinstance(query.node, Rows) and not query.order:
        counted, order = numbered(binding, query.node, {})
        query = replace(query, node=counted, order=order)
    hidden = dict.fromkeys(sort.column for sort in query.order if sort.column not in query.columns)
    binding.shared[key] = replace(query, names=names, columns=(*query.columns, *hidden))
    return Common(name, node.this, renamed, scope, key)


def _set_operation(binding: Binding, scope: Scope, node: exp.SetOperation) -> Query:
    """A chain of set operations, which sqlglot nests as deep as it is long."""
    chain = [node]
    while isinstance(inner := chain[-1].this, exp.SetOperation) and not any(map(inner.args.get, MODIFIERS)):
        chain.append(inner)
    for link in chain:
        only(link, binding.source, "this", "expression", "distinct", *MODIFIERS)
    result = binding.query(scope, chain[-1].this)
    names, parts, distinct = result.names, [result], False
    for link in reversed(chain):
        kind, every = SET_OPERATIONS[type(link)], not link.args.get("distinct")
        right = binding.query(scope, link.expression)
        left = [column.type for column in parts[0].columns]
        types = _joint(binding, left, right, link)
        if types != left or kind != "union" or (distinct and every):
            # What has been put together so far is one side.
            parts, distinct = (
                [brought_query(binding, united(binding, parts, distinct), tuple(types), link)],
                False,
            )
        parts.append(brought_query(binding, right, tuple(types), link))
        if kind == "union":
            distinct = distinct or not every
        else:
            parts = [combined(binding, kind, every, *parts)]
    return replace(united(binding, parts, distinct), names=names)


def _joint(binding: Binding, left: Sequence[Type], right: Query, node: exp.SetOperation) -> list[Type]:
    """The types of the columns of a set operation; ProgrammingError if its sides do not fit."""
    kind = SET_OPERATIONS[type(node)]
    if len(left) != len(right.columns):
        message = f"{kind.upper()} of {len(left)} with {len(right.columns)} columns"
        binding.wrong(message, node, "both sides need the same columns")
    types = []
    for index, (one, other) in enumerate(zip(left, (column.type for column in right.columns), strict=True)):
        joint = UNKNOWN if one == UNKNOWN and other == UNKNOWN else shown_type((one, other))
        if joint is None:
            message = f"column {index + 1} of {kind.upper()} is {one} and {other}"
            binding.wrong(message, node, "add a CAST")
        if node.args.get("distinct"):
            comparable(binding, joint, "equality", node)
        types.append(joint)
    return types


def _output_order(binding: Binding, query: Query, node: exp.Expr) -> tuple[SortKey, ...]:
    """ORDER BY of a query that is not a SELECT: output columns by name or position."""
    clause = node.args.get("order")
    if clause is None:
        return ()
    only(clause, binding.source, "expressions")
    keys = []
    for ordered in clause.expressions:
        column = output_column(binding, query.names, query.columns, ordered.this)
        if column is None:
            binding.refuse(
                "ORDER BY an expression over a set operation", ordered, "order by an output column"
            )
        keys.append(sort_key(binding, ordered, column))
    return tuple(keys)
