"""WITH RECURSIVE and WITH MUTUALLY RECURSIVE: queries that refer to themselves and to each other.

Both are the fixed point of their definitions, computed by rounds from no rows on. WITH MUTUALLY RECURSIVE
takes any queries, over columns with declared types. A WITH RECURSIVE query is ``first UNION [ALL] step``:
the columns have the types of the first query, and the step may do with the query's own rows only what adds
rows as rows are added (and with UNION ALL, for each row the same whatever others there are). Then the answer
of Postgres, which in each round looks at the rows of the round before only, is the fixed point.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from kpg.compiler.sql.bind.calls import user_type
from kpg.compiler.sql.bind.functions import aggregate_of
from kpg.compiler.sql.bind.output import brought_query, settled_query
from kpg.compiler.sql.bind.recursive_step import objection
from kpg.compiler.sql.bind.scope import Binding, Common, Scope
from kpg.compiler.sql.syntax import only
from kpg.compiler.sql.tree import Loop, Query, SetOperation, free
from kpg.runtime.functions import common_type
from kpg.runtime.scalar import Column
from kpg.runtime.types import UNKNOWN, ColumnDef

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
    from kpg.compiler.sql.bind.query import with_queries

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
