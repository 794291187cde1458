"""Queries: syntax trees to bound queries, including set operations, WITH and recursion.

WITH RECURSIVE and WITH MUTUALLY RECURSIVE are the fixed point of their definitions, computed by rounds from
empty relations. WITH MUTUALLY RECURSIVE takes any queries, over columns with declared types. WITH RECURSIVE
is ``first UNION [ALL] step``, and its columns have the types of the first query. The step must be monotone in
the query's own rows, and with UNION ALL also linear: each row contributes independently of the others. Under
these conditions Postgres' answer, whose rounds read only the rows of the round before, is the fixed point.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, assert_never

from sqlglot import exp

from kpg.compiler.catalog.access_control import may_deny_access
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.bind.calls import check_comparable, resolve_type
from kpg.compiler.sql.bind.from_clause import bind_values
from kpg.compiler.sql.bind.functions import aggregate_of
from kpg.compiler.sql.bind.query_output import (
    apply_limit,
    bind_sort_key,
    coerce_query,
    default_query_to_text,
    set_operation,
    union_queries,
    with_row_order,
)
from kpg.compiler.sql.bind.scalar import MAX_DEPTH, bind_expression
from kpg.compiler.sql.bind.scope import Binding, CommonTable, Scope
from kpg.compiler.sql.bind.select import bind_select, find_output_column
from kpg.compiler.sql.bound_tree import (
    BoundQuery,
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
    Rows,
    Scan,
    SetOperation,
    SharedScan,
    SortKey,
    TopK,
    Window,
    children,
    free_ids,
    scalars,
    shared_query_names,
    subquery_shared_names,
)
from kpg.compiler.sql.parse.features import NO_FEATURES, Features
from kpg.compiler.sql.parse.statements import Select
from kpg.compiler.sql.parse.syntax import allow_only, construct_name
from kpg.runtime.functions import common_result_type, common_type
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import Column, Scalar, columns
from kpg.runtime.types import UNKNOWN, ColumnDef, Type
from kpg.runtime.values.styles import CURRENT_STYLE

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import catalog_functions, traversal, user_aggregates
else:
    catalog_functions = LazyModule("kpg.compiler.sql.bind.catalog_functions")
    traversal = LazyModule("kpg.compiler.sql.bind.traversal")
    user_aggregates = LazyModule("kpg.compiler.sql.bind.user_aggregates")


def depends_on(binding: Binding, node: Node, name: str) -> bool:
    """Return whether a node refers to the shared query ``name``, directly or through other queries."""
    return _reaches_query(binding, shared_query_names(node, binding.subqueries), name)


def _reaches_query(binding: Binding, names: frozenset[str], name: str) -> bool:
    pending, seen = list(names), set(names)
    while pending:
        here = pending.pop()
        if here == name:
            return True
        query = binding.shared.get(here)
        if query is not None:
            new = shared_query_names(query.node, binding.subqueries) - seen
            seen |= new
            pending += new
    return False


def find_unsupported_step(binding: Binding, node: Node, name: str, keeps_duplicates: bool) -> str | None:
    """Return the first construct over the shared query ``name`` that makes a recursive step unsupported.

    A step must be monotone, and linear if it ``keeps_duplicates`` (UNION ALL).
    """
    if not depends_on(binding, node, name):
        return None
    nested = (
        subquery_shared_names(id_, binding.subqueries) for scalar in scalars(node) for id_ in columns(scalar)
    )
    if any(_reaches_query(binding, names, name) for names in nested):
        return "a subquery in an expression"
    found = _unsupported_construct(binding, node, name, keeps_duplicates)
    if found is not None:
        return found
    inputs = children(node)
    if isinstance(node, SharedScan) and node.name in binding.shared:
        inputs = (binding.shared[node.name].node,)
    below = (find_unsupported_step(binding, source, name, keeps_duplicates) for source in inputs)
    return next((found for found in below if found is not None), None)


def _reads_through_with(binding: Binding, node: Node, name: str) -> bool:
    others = shared_query_names(node, binding.subqueries) - {name}
    return any(_reaches_query(binding, frozenset((other,)), name) for other in others)


def _unsupported_construct(binding: Binding, node: Node, name: str, keeps_duplicates: bool) -> str | None:
    """Return the name of the node's own construct if a recursive step may not contain it."""
    match node:
        case SharedScan() if node.name in binding.loops:
            return "another recursive query"
        case Join(kind=kind, left=left, right=right):
            if kind == "full" or (kind == "left" and depends_on(binding, right, name)):
                return "an outer join"
            twice = depends_on(binding, left, name) and depends_on(binding, right, name)
            # Through a WITH, Postgres accepts two references and joins only the rows of one round.
            return (
                "a join with itself through WITH"
                if twice and _reads_through_with(binding, node, name)
                else None
            )
        case Group(ids=ids):
            return "an aggregate" if ids else "GROUP BY" if keeps_duplicates else None
        case GroupingSets():
            return "GROUPING SETS"
        case Distinct():
            return "DISTINCT" if keeps_duplicates else None
        case TopK():
            return "LIMIT or DISTINCT ON"
        case Window():
            return "a window function"
        case SetOperation(kind="union"):
            return "UNION without ALL" if keeps_duplicates and not node.all else None
        case SetOperation():
            kept = node.kind == "except" and not (keeps_duplicates or node.all)
            return node.kind.upper() if not kept or depends_on(binding, node.right.node, name) else None
        case SharedScan() | Scan() | Rows() | Filter() | Map() | Expand():
            return None
        case _:
            assert_never(node)


MUTUAL_HINT = "WITH MUTUALLY RECURSIVE takes any query"


def common_table_columns(binding: Binding, common: exp.Expr) -> tuple[str, ...]:
    """Return the column names in parentheses after a WITH query's name."""
    columns = common.args["alias"].args.get("columns") or []
    for column in columns:
        if not isinstance(column, exp.Identifier):
            binding.refuse(
                "a type of a WITH query's column", column, "only WITH MUTUALLY RECURSIVE declares types"
            )
    return tuple(column.name for column in columns)


def bind_mutual_recursion(binding: Binding, scope: Scope, clause: exp.Expr) -> None:
    """Bind the queries of WITH MUTUALLY RECURSIVE and add them to the scope. Each can refer to all."""
    keys = []
    for common in clause.expressions:
        key = f"with {common.alias} {binding.new_id()}"
        keys.append(key)
        binding.declared_columns[key] = _bind_declared_columns(binding, common)
        scope.common_tables[common.alias.lower()] = CommonTable(common.alias, common.this, (), scope, key)
    queries = []
    for key, common in zip(keys, clause.expressions, strict=True):
        query = binding.query(scope, common.this)
        columns = binding.declared_columns[key]
        _check_width(binding, query, columns, common)
        query = _coerce_to_columns(binding, common.alias, query, columns, common.this, "as declared")
        _check_uncorrelated(binding, query, common)
        queries.append(replace(query, names=tuple(column.name for column in columns), order=()))
    limit, error_at_limit = _recursion_limit(binding, clause.args["mutual"])
    _register_loop(binding, Loop(tuple(keys), tuple(queries), limit, error_at_limit))


def _register_loop(binding: Binding, loop: Loop) -> None:
    binding.shared.update(zip(loop.names, loop.queries, strict=True))
    binding.loops.update(dict.fromkeys(loop.names, loop))


def _bind_declared_columns(binding: Binding, common: exp.Expr) -> tuple[ColumnDef, ...]:
    columns: dict[str, ColumnDef] = {}
    for part in common.args["alias"].args.get("columns") or []:
        if not isinstance(part, exp.ColumnDef) or part.args.get("kind") is None:
            binding.fail(f'column "{part.name}" has no type', part, "write its type after its name")
        allow_only(part, binding.source, "this", "kind")
        if part.name.lower() in columns:
            binding.fail(f'column "{part.name}" is defined twice', part)
        columns[part.name.lower()] = ColumnDef(part.name, resolve_type(binding, part.args["kind"]))
    if not columns:
        hint = "write their names and types in parentheses after its name"
        binding.fail(f'the columns of "{common.alias}" are not declared', common.args["alias"], hint)
    return tuple(columns.values())


def _recursion_limit(binding: Binding, mutual: exp.Expr) -> tuple[int | None, bool]:
    limit = mutual.args.get("limit")
    if limit is None:
        return None, False
    if not limit.name.isdigit() or int(limit.name) == 0:
        binding.fail(f"RECURSION LIMIT {limit.name} is no number of rounds", limit)
    return int(limit.name), not mutual.args.get("returns")


def bind_recursion(binding: Binding, scope: Scope, clause: exp.Expr, common: exp.Expr) -> CommonTable | None:
    """Bind a query of WITH RECURSIVE that refers to itself; return None if it does not."""
    name = common.alias
    _check_forward_references(binding, clause, common)
    if next(find_references(common.this, name), None) is None:
        return None
    outer: frozenset[int] = frozenset()
    while True:
        key, query = _bind_terms(binding, scope, common, outer)
        found = free_ids(query.node, binding.subqueries)
        if found == outer:
            break
        # References must know the outer columns of the query, so it is bound again with them.
        outer = found
    _register_loop(binding, Loop((key,), (query,)))
    return scope.common_tables[name.lower()]


def _bind_terms(binding: Binding, scope: Scope, common: exp.Expr, outer: frozenset[int]) -> tuple[str, Query]:
    """Return the key and the query of a self-referencing query that refers to ``outer`` columns."""
    name = common.alias
    first, steps, every = _split_terms(binding, common)
    inner = _terms_scope(binding, scope, common)
    start = default_query_to_text(binding.query(inner, first))
    columns = _recursive_columns(binding, common, start)
    key = f"with {name} {binding.new_id()}"
    binding.declared_columns[key] = columns
    scope.common_tables[name.lower()] = CommonTable(name, common.this, (), scope, key, outer)
    types = tuple(column.type for column in columns)
    query = replace(start, order=())
    for step in steps:
        added = binding.query(inner, step)
        _check_width(binding, added, columns, step)
        added = _coerce_to_columns(binding, name, added, columns, step, "in the first query")
        _check_step(binding, added, key, name, step, every)
        ids = tuple(binding.new_id() for _ in types)
        both = SetOperation("union", every, query, replace(added, order=()), ids)
        outputs = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
        query = Query(both, outputs, tuple(column.name for column in columns))
    return key, query


def _terms_scope(binding: Binding, scope: Scope, common: exp.Expr) -> Scope:
    """Return the scope of the query's terms, which includes a WITH inside its parentheses."""
    clause = _strip_parentheses(common.this).args.get("with_")
    if clause is None:
        return scope

    for part in clause.expressions:
        place = next(find_references(part, common.alias), None)
        if place is not None:
            binding.refuse(f'a WITH over the rows of the recursive query "{common.alias}" itself', place)
    return nested_with_scope(binding, scope, clause)


def order_by_dependency(clause: exp.Expr) -> list[exp.Expr]:
    """Return the queries of WITH RECURSIVE, each after those that it refers to where possible."""
    rest, found = list(clause.expressions), list[exp.Expr]()
    while rest:
        others = {one.alias.lower() for one in rest}
        ready = [one for one in rest if not _references_any(one, others - {one.alias.lower()})]
        found += ready or rest
        rest = [one for one in rest if one not in ready] if ready else []
    return found


def _references_any(common: exp.Expr, names: set[str]) -> bool:
    return any(next(find_references(common.this, name), None) is not None for name in names)


def _check_forward_references(binding: Binding, clause: exp.Expr, common: exp.Expr) -> None:
    later = clause.expressions[clause.expressions.index(common) + 1 :]
    for other in later:
        for table in find_references(common.this, other.alias):
            binding.refuse(f'a reference to "{other.alias}", which is defined later,', table, MUTUAL_HINT)


def find_references(node: exp.Expr, name: str) -> Iterator[exp.Table]:
    """Yield the places in FROM that refer to the enclosing WITH query ``name``."""
    clause = node.args.get("with_")
    if clause is not None and any(common.alias.lower() == name.lower() for common in clause.expressions):
        return
    if isinstance(node, exp.Table) and node.name.lower() == name.lower():
        yield node
    for child in node.iter_expressions():
        yield from find_references(child, name)


def _split_terms(binding: Binding, common: exp.Expr) -> tuple[exp.Expr, list[exp.Expr], bool]:
    """Return the non-recursive term, the recursive terms, and whether they are combined by UNION ALL."""
    name = common.alias
    union = _strip_parentheses(common.this)
    steps: list[exp.Expr] = []
    node = union
    while next(find_references(node, name), None) is not None:
        _check_no_order(binding, name, node)
        if not isinstance(node, exp.Union):
            where = next(find_references(node, name))
            hint = "write WITH RECURSIVE name AS (query without it UNION [ALL] query with it)"
            binding.fail(f'the recursive query "{name}" does not begin with rows of its own', where, hint)
        if bool(node.args.get("distinct")) != bool(union.args.get("distinct")):
            binding.refuse("UNION beside UNION ALL in a recursive query", node, MUTUAL_HINT)
        allow_only(
            node, binding.source, "this", "expression", "distinct", *(["with_"] if node is union else [])
        )
        _check_no_order(binding, name, _strip_parentheses(node.expression))
        steps.append(node.expression)
        node = _strip_parentheses(node.this)
    return node, steps[::-1], not union.args.get("distinct")


def _strip_parentheses(node: exp.Expr) -> exp.Expr:
    """Return the query inside parentheses that have no order or limit of their own."""
    while isinstance(node, exp.Subquery) and not any(
        value for part, value in node.args.items() if part != "this"
    ):
        node = node.this
    return node


def _recursive_columns(binding: Binding, common: exp.Expr, start: Query) -> tuple[ColumnDef, ...]:
    renamed = common_table_columns(binding, common)
    if len(renamed) > len(start.columns):
        message = f'"{common.alias}" has {len(start.columns)} columns but {len(renamed)} are named'
        binding.fail(message, common.args["alias"])
    names = (*renamed, *start.names[len(renamed) :])
    return tuple(ColumnDef(name, column.type) for name, column in zip(names, start.columns, strict=True))


def _check_width(binding: Binding, query: Query, columns: tuple[ColumnDef, ...], node: exp.Expr) -> None:
    if len(query.columns) != len(columns):
        names = ", ".join(column.name for column in columns)
        message = f"the query has {len(query.columns)} columns, not the {len(columns)} of ({names})"
        binding.fail(message, node.this if isinstance(node, exp.CTE) else node)


def _coerce_to_columns(
    binding: Binding, name: str, query: Query, columns: tuple[ColumnDef, ...], node: exp.Expr, origin: str
) -> Query:
    """Coerce the query to the column types that ``origin`` declares. A wider type is an error."""
    for given, column in zip(query.columns, columns, strict=True):
        if given.type != UNKNOWN and common_type((column.type, given.type)) != column.type:
            message = f'column "{column.name}" of "{name}" is {column.type} {origin}, not {given.type}'
            binding.fail(message, node, "add a CAST")
    return coerce_query(binding, query, tuple(column.type for column in columns), node)


def _check_uncorrelated(binding: Binding, query: Query, common: exp.Expr) -> None:
    if free_ids(query.node, binding.subqueries):
        binding.refuse("a recursive WITH query with columns of an outer query", common)


def _check_step(
    binding: Binding, query: Query, key: str, name: str, step: exp.Expr, keeps_duplicates: bool
) -> None:
    """Refuse a recursive term whose answer in Postgres might differ from the fixed point."""
    found = find_unsupported_step(binding, query.node, key, keeps_duplicates)
    if found is not None:
        place = next(find_references(step, name), step)
        if found == "an aggregate":
            place = next(
                (node for node in step.walk() if aggregate_of(node, binding.catalog.functions)), place
            )
        _refuse_step(binding, found, name, place)


def _check_no_order(binding: Binding, name: str, node: exp.Expr) -> None:
    for part, words in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if node.args.get(part) is not None:
            _refuse_step(binding, words, name, node.args[part])


def _refuse_step(binding: Binding, construct: str, name: str, node: exp.Expr) -> NoReturn:
    binding.refuse(f'{construct} over the rows of the recursive query "{name}" itself', node, MUTUAL_HINT)


SET_OPERATIONS = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}
MODIFIERS = ("with_", "order", "limit", "offset")


def new_binding(source: str, catalog: Catalog, features: Features = NO_FEATURES) -> Binding:
    """Return the state for binding one statement of the text ``source``."""
    binding: Binding
    CURRENT_STYLE.set(catalog.style)

    def expression(scope: Scope, node: exp.Expr) -> Scalar:
        return bind_expression(binding, scope, node)

    def query(parent: Scope | None, node: exp.Expr) -> Query:
        return bind_query(binding, parent, node)

    def routine_name(number: Scalar, node: exp.Expr) -> Scalar:
        return catalog_functions.bind_routine_name(binding, number, node)

    binding = Binding(source, catalog, expression, query, new_binding, routine_name, features)
    if may_deny_access(catalog):
        binding.reads = Reads()
    return binding


def bind(query: Select, catalog: Catalog, *, is_view: bool = False) -> BoundQuery:
    """Bind a whole query, or the query of a maintained view if ``is_view``."""
    binding = new_binding(query.span.source, catalog, query.span.features)
    binding.is_view = is_view
    return resolved_query(binding, default_query_to_text(bind_query(binding, None, query.query)))


def resolved_query(binding: Binding, query: Query) -> BoundQuery:
    """Return the query with everything that binding has collected."""
    style = binding.catalog.style
    return BoundQuery(
        *(query, binding.subqueries, binding.shared, binding.loops, binding.new_id()), binding.reads, style
    )


def bind_query(binding: Binding, parent: Scope | None, node: exp.Expr) -> Query:
    """Bind a query in its enclosing scope. Column types may still be UNKNOWN."""
    if binding.catalog.aggregates and isinstance(node, exp.Select):
        node = user_aggregates.replace_aggregate_calls(binding.catalog, node)
    checkpoint()
    binding.depth += 1
    if binding.depth > MAX_DEPTH:
        binding.refuse(f"nesting deeper than {MAX_DEPTH}", node)
    try:
        around = _bind_with(binding, parent, node)
        return _bind_body(binding, around, node)
    finally:
        binding.depth -= 1


def _bind_body(binding: Binding, around: Scope, node: exp.Expr) -> Query:
    match node:
        case exp.Select():
            query, order = bind_select(binding, around, node)
        case exp.SetOperation():
            query = _bind_set_operation(binding, around, node)
            order = _bind_output_order(binding, query, node)
        case exp.Values():
            allow_only(node, binding.source, "expressions", "alias", *MODIFIERS)
            query = bind_values(binding, around, node)
            order = _bind_output_order(binding, query, node) or query.order
        case exp.Subquery() if isinstance(node.this, exp.Query | exp.Values):
            allow_only(node, binding.source, "this", "alias", *MODIFIERS)
            query = bind_query(binding, around, node.this)
            order = _bind_output_order(binding, query, node) or query.order
        case _:
            binding.refuse(construct_name(node), node)
    return apply_limit(binding, around, query, order, node)


def with_scope(binding: Binding, clause: exp.Expr | None) -> Scope:
    """Return the scope of a WITH clause."""
    return Scope() if clause is None else nested_with_scope(binding, None, clause)


def nested_with_scope(binding: Binding, parent: Scope | None, clause: exp.Expr) -> Scope:
    """Return the scope of a WITH clause within an enclosing scope."""
    return _bind_with(binding, parent, exp.Select(with_=clause.copy()))


def _bind_with(binding: Binding, parent: Scope | None, node: exp.Expr) -> Scope:
    """Return the scope of a query's body, with the queries of its WITH clause."""
    scope = Scope(parent)
    clause = node.args.get("with_")
    if clause is None:
        return scope
    allow_only(clause, binding.source, "expressions", "recursive", "mutual")
    names: set[str] = set()
    if any(common.args.get("search") or common.args.get("cycle") for common in clause.expressions):
        clause = _rewrite_traversals(binding, clause)
    for common in clause.expressions:
        allow_only(common, binding.source, "this", "alias", "materialized")  # a hint
        allow_only(common.args["alias"], binding.source, "this", "columns")
        if common.alias.lower() in names:
            binding.fail(f'WITH query "{common.alias}" is defined twice', common)
        names.add(common.alias.lower())
    if clause.args.get("mutual") is not None:
        bind_mutual_recursion(binding, scope, clause)
        return scope
    if clause.args.get("recursive"):
        clause = clause.copy()
        clause.set("expressions", order_by_dependency(clause))
    for common in clause.expressions:
        inner = replace(scope, common_tables=dict(scope.common_tables))
        recursive = bind_recursion(binding, inner, clause, common) if clause.args.get("recursive") else None
        scope.common_tables[common.alias.lower()] = recursive or _bind_common_table(binding, inner, common)
    return scope


def _rewrite_traversals(binding: Binding, clause: exp.Expr) -> exp.Expr:
    if not clause.args.get("recursive"):
        binding.fail("SEARCH and CYCLE need WITH RECURSIVE", clause)
    result = clause.copy()
    result.set("expressions", [traversal.rewrite_traversal(binding, common) for common in clause.expressions])
    return result


def _bind_common_table(binding: Binding, scope: Scope, node: exp.Expr) -> CommonTable:
    name, renamed = node.alias, common_table_columns(binding, node)
    query = default_query_to_text(binding.query(scope, node.this))
    if len(renamed) > len(query.columns):
        binding.fail(f'"{name}" has {len(query.columns)} columns but {len(renamed)} are named', node)
    if free_ids(query.node, binding.subqueries):
        return CommonTable(name, node.this, renamed, scope, None)
    key = f"with {name} {binding.new_id()}"
    names = (*renamed, *query.names[len(renamed) :])
    if isinstance(query.node, Rows) and not query.order:
        counted, order = with_row_order(binding, query.node, {})
        query = replace(query, node=counted, order=order)
    hidden = dict.fromkeys(sort.column for sort in query.order if sort.column not in query.columns)
    binding.shared[key] = replace(query, names=names, columns=(*query.columns, *hidden))
    return CommonTable(name, node.this, renamed, scope, key)


def _bind_set_operation(binding: Binding, scope: Scope, node: exp.SetOperation) -> Query:
    """Bind a chain of set operations iteratively: sqlglot nests a chain as deep as it is long."""
    chain = [node]
    while isinstance(inner := chain[-1].this, exp.SetOperation) and not any(map(inner.args.get, MODIFIERS)):
        chain.append(inner)
    for link in chain:
        allow_only(link, binding.source, "this", "expression", "distinct", *MODIFIERS)
    result = binding.query(scope, chain[-1].this)
    names, parts, distinct = result.names, [result], False
    for link in reversed(chain):
        kind, every = SET_OPERATIONS[type(link)], not link.args.get("distinct")
        right = binding.query(scope, link.expression)
        left = [column.type for column in parts[0].columns]
        types = _common_column_types(binding, left, right, link)
        if types != left or kind != "union" or (distinct and every):
            # The parts so far become the left side.
            parts, distinct = (
                [coerce_query(binding, union_queries(binding, parts, distinct), tuple(types), link)],
                False,
            )
        parts.append(coerce_query(binding, right, tuple(types), link))
        if kind == "union":
            distinct = distinct or not every
        else:
            parts = [set_operation(binding, kind, every, *parts)]
    return replace(union_queries(binding, parts, distinct), names=names)


def _common_column_types(
    binding: Binding, left: Sequence[Type], right: Query, node: exp.SetOperation
) -> list[Type]:
    """Return the column types of a set operation.

    Raises ProgrammingError if the numbers of columns differ or two types have no common type.
    """
    kind = SET_OPERATIONS[type(node)]
    if len(left) != len(right.columns):
        message = f"{kind.upper()} of {len(left)} with {len(right.columns)} columns"
        binding.fail(message, node, "both sides need the same columns")
    types = []
    for index, (one, other) in enumerate(zip(left, (column.type for column in right.columns), strict=True)):
        joint = UNKNOWN if one == UNKNOWN and other == UNKNOWN else common_result_type((one, other))
        if joint is None:
            message = f"column {index + 1} of {kind.upper()} is {one} and {other}"
            binding.fail(message, node, "add a CAST")
        if node.args.get("distinct"):
            check_comparable(binding, joint, "equality", node)
        types.append(joint)
    return types


def _bind_output_order(binding: Binding, query: Query, node: exp.Expr) -> tuple[SortKey, ...]:
    """Bind ORDER BY of a query that is not a SELECT: output columns by name or position."""
    clause = node.args.get("order")
    if clause is None:
        return ()
    allow_only(clause, binding.source, "expressions")
    keys = []
    for ordered in clause.expressions:
        column = find_output_column(binding, query.names, query.columns, ordered.this)
        if column is None:
            binding.refuse(
                "ORDER BY an expression over a set operation", ordered, "order by an output column"
            )
        keys.append(bind_sort_key(binding, ordered, column))
    return tuple(keys)
