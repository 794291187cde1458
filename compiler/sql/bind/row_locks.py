"""Row locks and cursor positions: FOR UPDATE and its variants, and WHERE CURRENT OF.

:func:`with_row_locations` adds two columns for each locked relation: the table of the row and its TID.
:func:`with_table_columns` adds all columns of the table to a
cursor's query.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from kpg.compiler.catalog.access_control import may_deny_access
from kpg.compiler.catalog.constraints import descendant_tables
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.sql.bind.scope import (
    HIDDEN_PREFIX,
    AggregateCollector,
    Binding,
    Scope,
    SetReturningCalls,
    WindowCollector,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parse_query_tree
from kpg.compiler.sql.parse.syntax import fail, relation_name, scalar_node
from kpg.compiler.system.oids import oid_of
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.values.words import BLOCK, TID_OFFSETS

CURSOR_CLAUSES = frozenset(
    {"expressions", "from_", "where", "order", "limit", "offset", "locks", "kind", "hint"}
)
"""Parts of a SELECT that a cursor for WHERE CURRENT OF may have."""


def with_table_columns(query: exp.Expr, catalog: Catalog) -> tuple[exp.Expr, TableEntry] | None:
    """Add all columns of its single table to a query, and return the table.

    Return None unless each row of the query is one row of the table.
    """
    if not isinstance(query, exp.Select) or any(
        value for name, value in query.args.items() if name not in CURSOR_CLAUSES
    ):
        return None
    table = query.args["from_"].this if query.args.get("from_") is not None else None
    if not isinstance(table, exp.Table) or table.args.get("joins"):
        return None
    entry = catalog.find(relation_name(table))
    if not isinstance(entry, TableEntry) or query.find(exp.AggFunc, exp.Window) is not None:
        return None
    columns = [
        exp.alias_(exp.column(name, table=table.alias_or_name, quoted=True), f"{name} (row)", quoted=True)
        for name in entry.schema.names
    ]
    made = query.copy()
    made.set("expressions", [*made.expressions, *columns])
    return made, entry


def restrict_to_row(
    statement: ast.Update | ast.Delete, entry: TableEntry, row: Sequence[Scalar]
) -> ast.Update | ast.Delete:
    """Restrict a statement to the rows equal to ``row``, by the primary key if there is one."""
    key = entry.schema.primary_key
    parts: list[exp.Expr] = []
    for place in key or range(len(row)):
        column = exp.column(entry.schema.names[place], table=statement.alias, quoted=True)
        make = exp.EQ if key else exp.NullSafeEQ
        parts.append(make(this=column, expression=scalar_node(row[place])))
    return replace(statement, cursor="", where=exp.and_(*parts, copy=False))


SET_OPERATIONS = "UNION/INTERSECT/EXCEPT"


def check_locks(
    binding: Binding,
    scope: Scope,
    node: exp.Select,
    collectors: tuple[AggregateCollector, WindowCollector, SetReturningCalls],
) -> None:
    """Raise ProgrammingError if a locking clause is not allowed, or names a relation not in FROM."""
    locks = node.args["locks"]
    aggregates, windows, expansions = collectors
    reasons = {
        SET_OPERATIONS: isinstance(node.parent, exp.SetOperation),
        "DISTINCT clause": node.args.get("distinct") is not None,
        "GROUP BY clause": node.args.get("group") is not None,
        "HAVING clause": node.args.get("having") is not None,
        "aggregate functions": bool(aggregates.group_only_ids),
        "window functions": bool(windows.calls),
        "set-returning functions in the target list": bool(expansions.calls),
    }
    reason = next((words for words, holds in reasons.items() if holds), None)
    if reason is not None:
        binding.fail(f"{lock_clause(locks[0])} is not allowed with {reason}", locks[0])
    nullable = _nullable_relations(node)
    for lock in locks:
        named = lock.expressions or ()
        for table in named:
            if table.name.lower() not in scope.relation_names():
                message = f'relation "{table.name}" in {lock_clause(lock)} clause not found in FROM clause'
                binding.fail(message, table)
        locked = {table.name.lower() for table in named} or scope.relation_names()
        if locked & nullable:
            message = f"{lock_clause(lock)} cannot be applied to the nullable side of an outer join"
            binding.fail(message, lock, "name the relations to lock: OF name")


def lock_clause(lock: exp.Expr) -> str:
    """Return the text of a locking clause, such as ``FOR NO KEY UPDATE``."""
    strength = "UPDATE" if lock.args.get("update") else "SHARE"
    if lock.args.get("key"):
        strength = "NO KEY UPDATE" if strength == "UPDATE" else "KEY SHARE"
    return f"FOR {strength}"


def _nullable_relations(node: exp.Select) -> set[str]:
    """Return the relations on the nullable side of an outer join. Nested joins are not examined."""
    source = node.args.get("from_")
    seen = {_item_name(source.this)} if source is not None else set[str]()
    found = set[str]()
    for join in node.args.get("joins") or ():
        side = str(join.args.get("side") or "").upper()
        if side in ("RIGHT", "FULL"):
            found |= seen
        if side in ("LEFT", "FULL"):
            found.add(_item_name(join.this))
        seen.add(_item_name(join.this))
    return found - {""}


def _item_name(item: exp.Expr) -> str:
    return str(item.alias_or_name).lower()


Words = NDArray[np.int64]
LOCK_MODES: Final = ("FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE")
"""Lock modes from weakest to strongest."""
WAIT_BLOCK, WAIT_SKIP, WAIT_ERROR = range(3)
"""Wait policy for a row that is locked; of two clauses the larger value applies."""


@dataclass(frozen=True, slots=True)
class LockTarget:
    """A relation in FROM whose rows are locked: its tables by OID, the lock mode and the wait policy."""

    alias: str
    tables: dict[int, str]
    mode: str
    wait_policy: int
    columns: tuple[str, str] = ("tableoid", "ctid")
    """Columns with the OID of a row's table and its TID."""


def locking_selects(tree: exp.Expr) -> list[exp.Select]:
    """Return the SELECTs of a tree that lock rows, the innermost first."""
    found = [node for node in tree.find_all(exp.Select) if node.args.get("locks")]
    return sorted(found, key=lambda node: -_depth(node))


def locks_rows(tree: exp.Expr) -> bool:
    """Return whether the outermost query locks rows."""
    return bool(tree.unnest().args.get("locks"))


def _depth(node: exp.Expr) -> int:
    depth, here = 0, node.parent
    while here is not None:
        depth, here = depth + 1, here.parent
    return depth


def replace_locking_subqueries(
    tree: exp.Expr, clause: exp.Expr | None, run: Callable[[exp.Select], exp.Expr], *, is_query: bool
) -> exp.Expr:
    """Replace subqueries that lock rows by queries of the locked rows, which ``run`` returns.

    ``clause`` is the WITH of the statement. If ``is_query``, the tree is the statement's query, and its
    outermost SELECT is not replaced.
    """
    if tree.find(exp.Lock) is None:
        return tree
    clause = None if clause is tree else clause
    tree = push_down_locks(tree)
    for node in locking_selects(tree):
        if (is_query and node is tree.unnest()) or isinstance(node.parent, exp.SetOperation):
            continue  # binding refuses a lock in a set operation
        made = run(with_enclosing_queries(node, clause))
        if node is tree:
            return made
        node.replace(made)
    return tree


def push_down_locks(tree: exp.Expr) -> exp.Expr:
    """Move locking clauses for subqueries in FROM into the subqueries."""
    tree = tree.copy()
    for select in reversed(locking_selects(tree)):
        for lock in select.args["locks"]:
            named = {table.name.lower() for table in lock.expressions or ()}
            for item in _from_items(select):
                if isinstance(item, exp.Subquery) and (not named or item.alias.lower() in named):
                    inner = item.unnest()
                    if isinstance(inner, exp.Select):
                        copied = lock.copy()
                        copied.set("expressions", None)
                        inner.set("locks", [*(inner.args.get("locks") or ()), copied])
    return tree


def expand_locked_views(
    select: exp.Expr, catalog: Catalog, source: str, *, in_view: bool = False
) -> tuple[exp.Expr, list[LockTarget]]:
    """Replace the views that a query locks by their queries, and return the tables whose rows it locks.

    As in Postgres, this locks the rows of the tables below a view that the whole query returns. The
    query of a view returns their locations in hidden columns. If ``in_view``, subqueries do so too.

    Raises:
        ProgrammingError: The query locks an item that has no rows of tables.
        NotSupportedError: The query locks a view that cannot be expanded.
    """
    select = select.copy()
    common = {one.alias.lower() for one in (select.args.get("with_") or exp.With()).expressions}
    found: list[LockTarget] = []
    for item in list(_from_items(select)):
        alias = str(item.alias_or_name)
        mode, locked = -1, WAIT_BLOCK
        clauses: list[exp.Expr] = []
        for lock in select.args["locks"]:
            named = [table.name.lower() for table in lock.expressions or ()]
            if named and alias.lower() not in named:
                continue
            if in_view and _lockable_subquery(item) is not None:
                clauses.append(lock)
            elif _is_lockable(item, common, catalog, lock, source, is_named=bool(named)):
                wait = lock.args.get("wait")
                mode = max(mode, LOCK_MODES.index(lock_clause(lock)))
                locked = max(locked, WAIT_BLOCK if wait is None else WAIT_ERROR if wait else WAIT_SKIP)
                clauses.append(lock)
        entry = catalog.find(relation_name(item)) if mode >= 0 else None
        if isinstance(entry, TableEntry):
            found.append(LockTarget(alias, _target_tables(item, entry, catalog), LOCK_MODES[mode], locked))
        elif clauses:
            found += _expand_locked_item(item, entry, clauses, catalog, source)
    return select, found


def _lockable_subquery(item: exp.Expr) -> exp.Select | None:
    """Return the SELECT of a subquery in FROM; None for any other item."""
    query = item.unnest() if isinstance(item, exp.Subquery) else None
    return query if isinstance(query, exp.Select) else None


def _expand_locked_item(
    item: exp.Expr, entry: Entry | None, clauses: Sequence[exp.Expr], catalog: Catalog, source: str
) -> list[LockTarget]:
    """Replace a view, or a subquery in a view, by a query that returns the locations of its rows."""
    query: exp.Expr | None = _lockable_subquery(item)
    names: Sequence[str] = ()
    if isinstance(entry, ViewEntry) and entry.definition is not None and not callable(entry.definition):
        query, names = parse_query_tree(entry.text).copy(), entry.schema.names
    if not isinstance(query, exp.Select) or may_deny_access(catalog):
        why = "while roles own anything" if isinstance(query, exp.Select) else "as it is no plain SELECT"
        name = "" if entry is None else entry.name.rpartition(".")[2]
        message = f'{lock_clause(clauses[0])} of rows of view "{name}" is not supported {why}'
        raise NotSupportedError(message, hint="lock rows of its tables")
    locks = [clause.copy() for clause in clauses]
    for lock in locks:
        lock.set("expressions", None)
    query.set("locks", [*(query.args.get("locks") or ()), *locks])
    query, below = expand_locked_views(query, catalog, source, in_view=True)
    alias = item.args.get("alias")
    given = [column.copy() for column in alias.args.get("columns") or ()] if alias is not None else []
    shown = [*given, *(exp.to_identifier(name, quoted=True) for name in names[len(given) :])]
    named = exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True), columns=shown)
    made = exp.Subquery(this=with_row_locations(query, below, HIDDEN_PREFIX), alias=named)
    made.set("joins", [join.copy() for join in item.args.get("joins") or ()])
    item.replace(made)
    name = str(item.alias_or_name)
    told = (
        (f"{HIDDEN_PREFIX}tableoid {place}", f"{HIDDEN_PREFIX}ctid {place}") for place in range(len(below))
    )
    return [replace(one, alias=name, columns=columns) for one, columns in zip(below, told, strict=True)]


def _target_tables(item: exp.Expr, entry: TableEntry, catalog: Catalog) -> dict[int, str]:
    below = () if item.args.get("only") else descendant_tables(catalog.partitions, entry.name)
    return {oid_of("relation", name): name for name in (entry.name, *below)}


def _from_items(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the items of FROM, including those in parentheses."""
    source = select.args.get("from_")
    joins = select.args.get("joins") or ()
    for item in (*(() if source is None else (source.this,)), *(join.this for join in joins)):
        yield from _flatten_item(item)


def _flatten_item(item: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(item, exp.Paren | exp.Subquery) and isinstance(item.this, exp.Table):
        yield from _flatten_item(item.this)
    else:
        yield item
    for join in item.args.get("joins") or ():
        yield from _flatten_item(join.this)


def _is_lockable(
    item: exp.Expr, common: set[str], catalog: Catalog, lock: exp.Expr, source: str, *, is_named: bool
) -> bool:
    """Return whether an item of FROM is a table or view. A named item that is not is an error."""
    entry: Entry | None = None
    what = "a function" if isinstance(item, exp.Table) else "VALUES"
    if isinstance(item, exp.Subquery) and isinstance(item.unnest(), exp.Select):
        return False
    if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
        if item.args.get("db") is None and item.name.lower() in common:
            what = "a WITH query"
        else:
            entry = catalog.find(relation_name(item))
    if isinstance(entry, ViewEntry) and entry.materialized:
        _refuse_materialized_view(entry)
    if entry is not None:
        return True
    if is_named:
        fail(f"{lock_clause(lock)} cannot be applied to {what}", lock, source)
    return False


def _refuse_materialized_view(entry: ViewEntry) -> NoReturn:
    name = entry.name.rpartition(".")[2]
    error = ProgrammingError(f'cannot lock rows in materialized view "{name}"')
    error.sqlstate = "42809"
    raise error


def with_row_locations(select: exp.Expr, targets: Sequence[LockTarget], prefix: str = "") -> exp.Expr:
    """Add two columns for each target to a query: the OID of a row's table and its TID."""
    columns = [
        exp.alias_(exp.column(name, table=one.alias, quoted=True), f"{prefix}{shown} {place}", quoted=True)
        for place, one in enumerate(targets)
        for name, shown in zip(one.columns, ("tableoid", "ctid"), strict=True)
    ]
    made = select.copy()
    made.set("expressions", [*made.expressions, *columns])
    return made


def constant_limits(select: exp.Expr) -> tuple[int | None, int] | None:
    """Return the constants of LIMIT and OFFSET; None if there are none, or one is not a constant."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if limit is None and offset is None:
        return None
    if isinstance(limit, exp.Fetch) and (limit.args.get("limit_options") or exp.Expr()).args.get("with_ties"):
        return None
    counts: list[int | None] = []
    for clause in (limit, offset):
        part = "count" if isinstance(clause, exp.Fetch) else "expression"
        value = None if clause is None else clause.args.get(part)
        if isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal():
            counts.append(int(value.name))
        elif clause is None or isinstance(value, exp.Null):
            counts.append(None)
        else:
            return None
    return counts[0], counts[1] or 0


def with_limit(select: exp.Expr, count: int | None) -> exp.Expr:
    """Return the query with a LIMIT of ``count`` rows, or without LIMIT and OFFSET."""
    made = select.copy()
    made.set("offset", None)
    made.set("limit", None if count is None else exp.Limit(expression=exp.Literal.number(count)))
    return made


def with_enclosing_queries(select: exp.Select, clause: exp.Expr | None) -> exp.Select:
    """Return a subquery with copies of the WITH queries that it can reference."""
    clauses = [] if clause is None else [clause]
    here: exp.Expr | None = select.parent
    inside: exp.Expr = select
    before: list[exp.Expr] = []
    while here is not None:
        listed = here if isinstance(here, exp.With) else here.args.get("with_")
        if isinstance(listed, exp.With) and listed is not inside:
            names = listed.expressions
            end = next((place for place, one in enumerate(names) if one is inside), len(names))
            before = [*names[:end], *before]
        inside, here = here, here.parent
    before = [*(one for each in clauses for one in each.expressions), *before]
    made = select.copy()
    if before:
        own = made.args.get("with_")
        listed = [one.copy() for one in before]
        made.set("with_", exp.With(expressions=[*listed, *([] if own is None else own.expressions)]))
    return made


def rowids_of_tids(tids: Words) -> Words:
    """Return the rowids of TIDs. Both are int64 arrays."""
    told = tids - 1
    return told // TID_OFFSETS * BLOCK + told % TID_OFFSETS


def rows_query(names: Sequence[str], rows: Sequence[Sequence[Literal]], nulls: Sequence[Literal]) -> exp.Expr:
    """Return a query of constant rows. ``nulls`` gives the column types if there are no rows."""

    def with_aliases(row: Sequence[exp.Expr]) -> list[exp.Expr]:
        return [exp.alias_(one, name, quoted=True) for one, name in zip(row, names, strict=True)]

    if len(rows) == 1:
        return exp.Select(expressions=with_aliases([scalar_node(value) for value in rows[0]]))
    if not rows:
        made = exp.Select(expressions=with_aliases([scalar_node(value) for value in nulls]))
        made.set("where", exp.Where(this=exp.Boolean(this=False)))
        return made
    columns = [exp.to_identifier(f"c{place}") for place in range(len(names))]
    alias = exp.TableAlias(this=exp.to_identifier("locked"), columns=columns)
    values = exp.Values(
        expressions=[exp.Tuple(expressions=[scalar_node(value) for value in row]) for row in rows],
        alias=alias,
    )
    return exp.Select(
        expressions=with_aliases([exp.column(f"c{place}") for place in range(len(names))]),
        from_=exp.From(this=values),
    )


def table_query(names: Sequence[str], table: str) -> exp.Expr:
    """Return a query of all rows of a table, with its columns renamed."""
    source = exp.Table(this=exp.to_identifier(table, quoted=True))
    columns = [exp.alias_(exp.column(f"c{place}"), name, quoted=True) for place, name in enumerate(names)]
    return exp.Select(expressions=columns, from_=exp.From(this=source))
