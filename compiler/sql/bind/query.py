"""Queries: syntax trees to bound queries, including set operations, WITH and recursion.

WITH RECURSIVE and WITH MUTUALLY RECURSIVE are the fixed point of their definitions, computed by rounds from
empty relations. WITH MUTUALLY RECURSIVE takes any queries, over columns with declared types. WITH RECURSIVE
is ``first UNION [ALL] step``, and its columns have the types of the first query. The step must be monotone in
the query's own rows, and with UNION ALL also linear: each row contributes independently of the others. Under
these conditions Postgres' answer, whose rounds read only the rows of the round before, is the fixed point.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn, assert_never

from sqlglot import exp

from kpg.compiler.catalog.access_control import may_refuse
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.bind.calls import comparable, user_type
from kpg.compiler.sql.bind.from_clause import bind_values
from kpg.compiler.sql.bind.functions import aggregate_of
from kpg.compiler.sql.bind.query_output import (
    brought_query,
    combined,
    limited,
    numbered,
    settled_query,
    sort_key,
    united,
)
from kpg.compiler.sql.bind.scalar import MAX_DEPTH, bind_expression
from kpg.compiler.sql.bind.scope import Binding, Common, Scope
from kpg.compiler.sql.bind.select import bind_select, output_column
from kpg.compiler.sql.bound_tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Join,
    Loop,
    Map,
    Node,
    Query,
    Reads,
    Resolved,
    Rows,
    Scan,
    SetOperation,
    Shared,
    SortKey,
    TopK,
    Window,
    children,
    free,
    names_in,
    scalars,
    shared_names,
)
from kpg.compiler.sql.parse.syntax import construct_name, only
from kpg.runtime.functions import common_type, shown_type
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import Column, Scalar, columns
from kpg.runtime.types import UNKNOWN, ColumnDef, Type
from kpg.runtime.values.styles import BINDING


def depends(binding: Binding, node: Node, name: str) -> bool:
    """Whether a node refers to the shared query ``name``, directly or through others."""
    return _reaches(binding, shared_names(node, binding.subqueries), name)


def _reaches(binding: Binding, names: frozenset[str], name: str) -> bool:
    pending, seen = list(names), set(names)
    while pending:
        here = pending.pop()
        if here == name:
            return True
        query = binding.shared.get(here)
        if query is not None:
            new = shared_names(query.node, binding.subqueries) - seen
            seen |= new
            pending += new
    return False


def objection(binding: Binding, node: Node, name: str, every: bool) -> str | None:
    """The first construct over rows of the shared query ``name`` that keeps a step from just adding rows.

    ``every``: rows count as often as they occur, so that nothing may drop repeated ones.
    """
    if not depends(binding, node, name):
        return None
    nested = (names_in(id_, binding.subqueries) for scalar in scalars(node) for id_ in columns(scalar))
    if any(_reaches(binding, names, name) for names in nested):
        return "a subquery in an expression"
    found = _own_objection(binding, node, name, every)
    if found is not None:
        return found
    inputs = children(node)
    if isinstance(node, Shared) and node.name in binding.shared:
        inputs = (binding.shared[node.name].node,)
    below = (objection(binding, source, name, every) for source in inputs)
    return next((found for found in below if found is not None), None)


def _through_with(binding: Binding, node: Node, name: str) -> bool:
    others = shared_names(node, binding.subqueries) - {name}
    return any(_reaches(binding, frozenset((other,)), name) for other in others)


def _own_objection(binding: Binding, node: Node, name: str, every: bool) -> str | None:
    """The node itself, if it is such a construct."""
    match node:
        case Shared() if node.name in binding.loops:
            return "another recursive query"
        case Join(kind=kind, left=left, right=right):
            if kind == "full" or (kind == "left" and depends(binding, right, name)):
                return "an outer join"
            twice = depends(binding, left, name) and depends(binding, right, name)
            # Postgres joins the rows of one round only; where it reads them once, through a WITH, it does so.
            return "a join with itself through WITH" if twice and _through_with(binding, node, name) else None
        case Group(ids=ids):
            return "an aggregate" if ids else "GROUP BY" if every else None
        case GroupingSets():
            return "GROUPING SETS"
        case Distinct():
            return "DISTINCT" if every else None
        case TopK():
            return "LIMIT or DISTINCT ON"
        case Window():
            return "a window function"
        case SetOperation(kind="union"):
            return "UNION without ALL" if every and not node.all else None
        case SetOperation():
            kept = node.kind == "except" and not (every or node.all)
            return node.kind.upper() if not kept or depends(binding, node.right.node, name) else None
        case Shared() | Scan() | Rows() | Filter() | Map() | Expand():
            return None
        case _:
            assert_never(node)


MUTUAL_HINT = "WITH MUTUALLY RECURSIVE takes any query"


def renamed_columns(binding: Binding, common: exp.Expr) -> tuple[str, ...]:
    """The column names that a WITH query is given in parentheses."""
    columns = common.args["alias"].args.get("columns") or []
    for column in columns:
        if not isinstance(column, exp.Identifier):
            binding.refuse(
                "a type of a WITH query's column", column, "only WITH MUTUALLY RECURSIVE declares types"
            )
    return tuple(column.name for column in columns)


def bind_mutual(binding: Binding, scope: Scope, clause: exp.Expr) -> None:
    """Enters the queries of WITH MUTUALLY RECURSIVE, each of which sees all of them, in the scope."""
    keys = []
    for common in clause.expressions:
        key = f"with {common.alias} {binding.fresh()}"
        keys.append(key)
        binding.declared[key] = _declared(binding, common)
        scope.common[common.alias.lower()] = Common(common.alias, common.this, (), scope, key)
    queries = []
    for key, common in zip(keys, clause.expressions, strict=True):
        query = binding.query(scope, common.this)
        columns = binding.declared[key]
        _check_width(binding, query, columns, common)
        query = _brought(binding, common.alias, query, columns, common.this, "as declared")
        _check_closed(binding, query, common)
        queries.append(replace(query, names=tuple(column.name for column in columns), order=()))
    limit, error_at_limit = _limit(binding, clause.args["mutual"])
    _register(binding, Loop(tuple(keys), tuple(queries), limit, error_at_limit))


def _register(binding: Binding, loop: Loop) -> None:
    binding.shared.update(zip(loop.names, loop.queries, strict=True))
    binding.loops.update(dict.fromkeys(loop.names, loop))


def _declared(binding: Binding, common: exp.Expr) -> tuple[ColumnDef, ...]:
    columns: dict[str, ColumnDef] = {}
    for part in common.args["alias"].args.get("columns") or []:
        if not isinstance(part, exp.ColumnDef) or part.args.get("kind") is None:
            binding.wrong(f'column "{part.name}" has no type', part, "write its type after its name")
        only(part, binding.source, "this", "kind")
        if part.name.lower() in columns:
            binding.wrong(f'column "{part.name}" is defined twice', part)
        columns[part.name.lower()] = ColumnDef(part.name, user_type(binding, part.args["kind"]))
    if not columns:
        hint = "write their names and types in parentheses after its name"
        binding.wrong(f'the columns of "{common.alias}" are not declared', common.args["alias"], hint)
    return tuple(columns.values())


def _limit(binding: Binding, mutual: exp.Expr) -> tuple[int | None, bool]:
    limit = mutual.args.get("limit")
    if limit is None:
        return None, False
    if not limit.name.isdigit() or int(limit.name) == 0:
        binding.wrong(f"RECURSION LIMIT {limit.name} is no number of rounds", limit)
    return int(limit.name), not mutual.args.get("returns")


def bind_recursive(binding: Binding, scope: Scope, clause: exp.Expr, common: exp.Expr) -> Common | None:
    """A query of WITH RECURSIVE that refers to itself; None if it does not."""
    name = common.alias
    _check_order(binding, clause, common)
    if next(references(common.this, name), None) is None:
        return None
    outer: frozenset[int] = frozenset()
    while True:
        key, query = _recursion(binding, scope, common, outer)
        found = free(query.node, binding.subqueries)
        if found == outer:
            break
        # References to it have to know which columns it refers to: it is bound again with that knowledge.
        outer = found
    _register(binding, Loop((key,), (query,)))
    return scope.common[name.lower()]


def _recursion(binding: Binding, scope: Scope, common: exp.Expr, outer: frozenset[int]) -> tuple[str, Query]:
    """The key and the query of a WITH RECURSIVE query that refers to ``outer`` columns."""
    name = common.alias
    first, steps, every = _terms(binding, common)
    inner = _around(binding, scope, common)
    start = settled_query(binding.query(inner, first))
    columns = _columns(binding, common, start)
    key = f"with {name} {binding.fresh()}"
    binding.declared[key] = columns
    scope.common[name.lower()] = Common(name, common.this, (), scope, key, outer)
    types = tuple(column.type for column in columns)
    query = replace(start, order=())
    for step in steps:
        added = binding.query(inner, step)
        _check_width(binding, added, columns, step)
        added = _brought(binding, name, added, columns, step, "in the first query")
        _check_step(binding, added, key, name, step, every)
        ids = tuple(binding.fresh() for _ in types)
        both = SetOperation("union", every, query, replace(added, order=()), ids)
        outputs = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
        query = Query(both, outputs, tuple(column.name for column in columns))
    return key, query


def _around(binding: Binding, scope: Scope, common: exp.Expr) -> Scope:
    """The scope of its parts, with the queries of a WITH that stands before them."""
    clause = _unwrapped(common.this).args.get("with_")
    if clause is None:
        return scope

    for part in clause.expressions:
        place = next(references(part, common.alias), None)
        if place is not None:
            binding.refuse(f'a WITH over the rows of the recursive query "{common.alias}" itself', place)
    return with_queries(binding, scope, clause)


def in_order(clause: exp.Expr) -> list[exp.Expr]:
    """The queries of WITH RECURSIVE, each after those that it refers to, as far as that can be."""
    rest, found = list(clause.expressions), list[exp.Expr]()
    while rest:
        others = {one.alias.lower() for one in rest}
        ready = [one for one in rest if not _named(one, others - {one.alias.lower()})]
        found += ready or rest
        rest = [one for one in rest if one not in ready] if ready else []
    return found


def _named(common: exp.Expr, names: set[str]) -> bool:
    return any(next(references(common.this, name), None) is not None for name in names)


def _check_order(binding: Binding, clause: exp.Expr, common: exp.Expr) -> None:
    later = clause.expressions[clause.expressions.index(common) + 1 :]
    for other in later:
        for table in references(common.this, other.alias):
            binding.refuse(f'a reference to "{other.alias}", which is defined later,', table, MUTUAL_HINT)


def references(node: exp.Expr, name: str) -> Iterator[exp.Table]:
    """The places in a query where FROM means the WITH query ``name`` around it."""
    clause = node.args.get("with_")
    if clause is not None and any(common.alias.lower() == name.lower() for common in clause.expressions):
        return
    if isinstance(node, exp.Table) and node.name.lower() == name.lower():
        yield node
    for child in node.iter_expressions():
        yield from references(child, name)


def _terms(binding: Binding, common: exp.Expr) -> tuple[exp.Expr, list[exp.Expr], bool]:
    """The query that does not refer to itself, those that do, and whether it is UNION ALL."""
    name = common.alias
    union = _unwrapped(common.this)
    steps: list[exp.Expr] = []
    node = union
    while next(references(node, name), None) is not None:
        _check_order_of_rows(binding, name, node)
        if not isinstance(node, exp.Union):
            where = next(references(node, name))
            hint = "write WITH RECURSIVE name AS (query without it UNION [ALL] query with it)"
            binding.wrong(f'the recursive query "{name}" does not begin with rows of its own', where, hint)
        if bool(node.args.get("distinct")) != bool(union.args.get("distinct")):
            binding.refuse("UNION beside UNION ALL in a recursive query", node, MUTUAL_HINT)
        only(node, binding.source, "this", "expression", "distinct", *(["with_"] if node is union else []))
        _check_order_of_rows(binding, name, _unwrapped(node.expression))
        steps.append(node.expression)
        node = _unwrapped(node.this)
    return node, steps[::-1], not union.args.get("distinct")


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it; those with an order or limit stay."""
    while isinstance(node, exp.Subquery) and not any(
        value for part, value in node.args.items() if part != "this"
    ):
        node = node.this
    return node


def _columns(binding: Binding, common: exp.Expr, start: Query) -> tuple[ColumnDef, ...]:
    renamed = renamed_columns(binding, common)
    if len(renamed) > len(start.columns):
        message = f'"{common.alias}" has {len(start.columns)} columns but {len(renamed)} are named'
        binding.wrong(message, common.args["alias"])
    names = (*renamed, *start.names[len(renamed) :])
    return tuple(ColumnDef(name, column.type) for name, column in zip(names, start.columns, strict=True))


def _check_width(binding: Binding, query: Query, columns: tuple[ColumnDef, ...], node: exp.Expr) -> None:
    if len(query.columns) != len(columns):
        names = ", ".join(column.name for column in columns)
        message = f"the query has {len(query.columns)} columns, not the {len(columns)} of ({names})"
        binding.wrong(message, node.this if isinstance(node, exp.CTE) else node)


def _brought(
    binding: Binding, name: str, query: Query, columns: tuple[ColumnDef, ...], node: exp.Expr, origin: str
) -> Query:
    """The query with the types of the columns, known from the ``origin``; an error if one is too narrow."""
    for given, column in zip(query.columns, columns, strict=True):
        if given.type != UNKNOWN and common_type((column.type, given.type)) != column.type:
            message = f'column "{column.name}" of "{name}" is {column.type} {origin}, not {given.type}'
            binding.wrong(message, node, "add a CAST")
    return brought_query(binding, query, tuple(column.type for column in columns), node)


def _check_closed(binding: Binding, query: Query, common: exp.Expr) -> None:
    if free(query.node, binding.subqueries):
        binding.refuse("a recursive WITH query with columns of an outer query", common)


def _check_step(binding: Binding, query: Query, key: str, name: str, step: exp.Expr, every: bool) -> None:
    """Refuses a step of which Postgres' answer might not be the fixed point."""
    found = objection(binding, query.node, key, every)
    if found is not None:
        place = next(references(step, name), step)
        if found == "an aggregate":
            place = next(
                (node for node in step.walk() if aggregate_of(node, binding.catalog.functions)), place
            )
        _refuse_step(binding, found, name, place)


def _check_order_of_rows(binding: Binding, name: str, node: exp.Expr) -> None:
    for part, words in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if node.args.get(part) is not None:
            _refuse_step(binding, words, name, node.args[part])


def _refuse_step(binding: Binding, construct: str, name: str, node: exp.Expr) -> NoReturn:
    binding.refuse(f'{construct} over the rows of the recursive query "{name}" itself', node, MUTUAL_HINT)


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

    def routine_name(number: Scalar, node: exp.Expr) -> Scalar:
        from kpg.compiler.sql.bind.catalog_functions import routine_named  # lazy: loads the system catalogs

        return routine_named(binding, number, node)

    binding = Binding(source, catalog, expression, query, new_binding, routine_name)
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
        from kpg.compiler.sql.bind.user_aggregates import folded  # lazy: users' aggregates

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
    return limited(binding, around, query, order, node)


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
    from kpg.compiler.sql.bind.traversal import with_traversal  # lazy: SEARCH and CYCLE

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
