"""Row locks and cursor positions: FOR UPDATE and its variants, and WHERE CURRENT OF.

:func:`located` adds two columns to a query for each locked relation: the table of the row and its rowid.
:func:`with_row` adds all columns of the table to a
cursor's query.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from kpg.compiler.catalog.access_control import may_refuse
from kpg.compiler.catalog.constraints import heirs
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.sql.bind.scope import HIDDEN, Aggregates, Binding, Expansions, Scope, Windows
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parsed_query
from kpg.compiler.sql.parse.syntax import known, relation_name, wrong
from kpg.compiler.system.oids import number_of
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.values.words import BLOCK, SPAN

CLAUSES = frozenset({"expressions", "from_", "where", "order", "limit", "offset", "locks", "kind", "hint"})


def with_row(query: exp.Expr, catalog: Catalog) -> tuple[exp.Expr, TableEntry] | None:
    """A query with all columns of its one table behind its own; None if it has not one row of it for each."""
    if not isinstance(query, exp.Select) or any(
        value for name, value in query.args.items() if name not in CLAUSES
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


def at_row(
    statement: ast.Update | ast.Delete, entry: TableEntry, row: Sequence[Scalar]
) -> ast.Update | ast.Delete:
    """The statement for the rows that are as a row, by the table's key if it has one."""
    key = entry.schema.primary_key
    parts: list[exp.Expr] = []
    for place in key or range(len(row)):
        column = exp.column(entry.schema.names[place], table=statement.alias, quoted=True)
        make = exp.EQ if key else exp.NullSafeEQ
        parts.append(make(this=column, expression=known(row[place])))
    return replace(statement, cursor="", where=exp.and_(*parts, copy=False))


SETS = "UNION/INTERSECT/EXCEPT"


def check_locks(
    binding: Binding,
    scope: Scope,
    node: exp.Select,
    collected: tuple[Aggregates, Windows, Expansions],
) -> None:
    """Refuse a locking clause where rows of the query are not rows of tables, or of what is not in FROM."""
    locks = node.args["locks"]
    aggregates, windows, expansions = collected
    reasons = {
        SETS: isinstance(node.parent, exp.SetOperation),
        "DISTINCT clause": node.args.get("distinct") is not None,
        "GROUP BY clause": node.args.get("group") is not None,
        "HAVING clause": node.args.get("having") is not None,
        "aggregate functions": bool(aggregates.all_ids),
        "window functions": bool(windows.calls),
        "set-returning functions in the target list": bool(expansions.calls),
    }
    reason = next((words for words, holds in reasons.items() if holds), None)
    if reason is not None:
        binding.wrong(f"{words_of(locks[0])} is not allowed with {reason}", locks[0])
    nullable = _nullable(node)
    for lock in locks:
        named = lock.expressions or ()
        for table in named:
            if table.name.lower() not in scope.relations():
                message = f'relation "{table.name}" in {words_of(lock)} clause not found in FROM clause'
                binding.wrong(message, table)
        locked = {table.name.lower() for table in named} or scope.relations()
        if locked & nullable:
            message = f"{words_of(lock)} cannot be applied to the nullable side of an outer join"
            binding.wrong(message, lock, "name the relations to lock: OF name")


def words_of(lock: exp.Expr) -> str:
    """The clause as it was written."""
    strength = "UPDATE" if lock.args.get("update") else "SHARE"
    if lock.args.get("key"):
        strength = "NO KEY UPDATE" if strength == "UPDATE" else "KEY SHARE"
    return f"FOR {strength}"


def _nullable(node: exp.Select) -> set[str]:
    """The relations that an outer join may fill with NULLs, as far as joins are in one row."""
    source = node.args.get("from_")
    seen = {_name(source.this)} if source is not None else set[str]()
    found = set[str]()
    for join in node.args.get("joins") or ():
        side = str(join.args.get("side") or "").upper()
        if side in ("RIGHT", "FULL"):
            found |= seen
        if side in ("LEFT", "FULL"):
            found.add(_name(join.this))
        seen.add(_name(join.this))
    return found - {""}


def _name(item: exp.Expr) -> str:
    return str(item.alias_or_name).lower()


Words = NDArray[np.int64]
MODES: Final = ("FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE")
WAITS, SKIPS, REFUSES = range(3)
"""What becomes of a row that is locked: the stronger of two clauses counts."""


@dataclass(frozen=True, slots=True)
class Target:
    """A relation of a query whose rows are locked: the tables that they may be of, by their numbers."""

    alias: str
    tables: dict[int, str]
    mode: str
    locked: int
    columns: tuple[str, str] = ("tableoid", "ctid")
    """Those that say which table a row is of, and where it is in that."""


def locking(tree: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a tree that lock rows: inner ones first, else as they are written."""
    found = [node for node in tree.find_all(exp.Select) if node.args.get("locks")]
    return sorted(found, key=lambda node: -_depth(node))


def locks(tree: exp.Expr) -> bool:
    """Whether a query itself locks rows."""
    return bool(tree.unnest().args.get("locks"))


def _depth(node: exp.Expr) -> int:
    depth, here = 0, node.parent
    while here is not None:
        depth, here = depth + 1, here.parent
    return depth


def settled(
    tree: exp.Expr, clause: exp.Expr | None, asked: Callable[[exp.Select], exp.Expr], *, whole: bool
) -> exp.Expr:
    """The tree with rows in the place of subqueries that lock some: ``asked`` gives a query of the rows.

    ``clause``: the WITH of the statement that the tree is a part of. ``whole``: the tree is the statement's
    query, which is left to be asked itself.
    """
    if tree.find(exp.Lock) is None:
        return tree
    clause = None if clause is tree else clause
    tree = pushed(tree)
    for node in locking(tree):
        if (whole and node is tree.unnest()) or isinstance(node.parent, exp.SetOperation):
            continue  # the latter is refused when it is bound
        made = asked(with_common(node, clause))
        if node is tree:
            return made
        node.replace(made)
    return tree


def pushed(tree: exp.Expr) -> exp.Expr:
    """The tree with clauses that lock subqueries in FROM in these."""
    tree = tree.copy()
    for select in reversed(locking(tree)):
        for lock in select.args["locks"]:
            named = {table.name.lower() for table in lock.expressions or ()}
            for item in _items(select):
                if isinstance(item, exp.Subquery) and (not named or item.alias.lower() in named):
                    inner = item.unnest()
                    if isinstance(inner, exp.Select):
                        copied = lock.copy()
                        copied.set("expressions", None)
                        inner.set("locks", [*(inner.args.get("locks") or ()), copied])
    return tree


def opened(
    select: exp.Expr, catalog: Catalog, source: str, *, within: bool = False
) -> tuple[exp.Expr, list[Target]]:
    """A query with the queries of views whose rows it locks in their places, and what it locks rows of.

    An error for what has no rows of tables. As in Postgres the rows of the tables below a view are locked,
    those that the whole query gives: a view's query hands on where its rows are, in columns that no text can
    name. ``within`` a view so do subqueries.
    """
    select = select.copy()
    common = {one.alias.lower() for one in (select.args.get("with_") or exp.With()).expressions}
    found: list[Target] = []
    for item in list(_items(select)):
        alias = str(item.alias_or_name)
        mode, locked = -1, WAITS
        clauses: list[exp.Expr] = []
        for lock in select.args["locks"]:
            named = [table.name.lower() for table in lock.expressions or ()]
            if named and alias.lower() not in named:
                continue
            if within and _query_of(item) is not None:
                clauses.append(lock)
            elif _has_rows(item, common, catalog, lock, source, named=bool(named)):
                wait = lock.args.get("wait")
                mode = max(mode, MODES.index(words_of(lock)))
                locked = max(locked, WAITS if wait is None else REFUSES if wait else SKIPS)
                clauses.append(lock)
        entry = catalog.find(relation_name(item)) if mode >= 0 else None
        if isinstance(entry, TableEntry):
            found.append(Target(alias, _tables(item, entry, catalog), MODES[mode], locked))
        elif clauses:
            found += _inside(item, entry, clauses, catalog, source)
    return select, found


def _query_of(item: exp.Expr) -> exp.Select | None:
    """The query of a subquery in FROM that can lock rows."""
    query = item.unnest() if isinstance(item, exp.Subquery) else None
    return query if isinstance(query, exp.Select) else None


def _inside(
    item: exp.Expr, entry: Entry | None, clauses: Sequence[exp.Expr], catalog: Catalog, source: str
) -> list[Target]:
    """Put a query that hands on where its rows are in the place of a view, or a subquery within one."""
    query: exp.Expr | None = _query_of(item)
    names: Sequence[str] = ()
    if isinstance(entry, ViewEntry) and entry.definition is not None and not callable(entry.definition):
        query, names = parsed_query(entry.text).copy(), entry.schema.names
    if not isinstance(query, exp.Select) or may_refuse(catalog):
        why = "while roles own anything" if isinstance(query, exp.Select) else "as it is no plain SELECT"
        name = "" if entry is None else entry.name.rpartition(".")[2]
        message = f'{words_of(clauses[0])} of rows of view "{name}" is not supported {why}'
        raise NotSupportedError(message, hint="lock rows of its tables")
    locks = [clause.copy() for clause in clauses]
    for lock in locks:
        lock.set("expressions", None)
    query.set("locks", [*(query.args.get("locks") or ()), *locks])
    query, below = opened(query, catalog, source, within=True)
    alias = item.args.get("alias")
    given = [column.copy() for column in alias.args.get("columns") or ()] if alias is not None else []
    shown = [*given, *(exp.to_identifier(name, quoted=True) for name in names[len(given) :])]
    named = exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True), columns=shown)
    made = exp.Subquery(this=located(query, below, HIDDEN), alias=named)
    made.set("joins", [join.copy() for join in item.args.get("joins") or ()])
    item.replace(made)
    name = str(item.alias_or_name)
    told = ((f"{HIDDEN}tableoid {place}", f"{HIDDEN}ctid {place}") for place in range(len(below)))
    return [replace(one, alias=name, columns=columns) for one, columns in zip(below, told, strict=True)]


def _tables(item: exp.Expr, entry: TableEntry, catalog: Catalog) -> dict[int, str]:
    below = () if item.args.get("only") or not catalog.others else heirs(catalog.others, entry.name)
    return {number_of("relation", name): name for name in (entry.name, *below)}


def _items(select: exp.Expr) -> Iterator[exp.Expr]:
    """What a query reads, with what stands in parentheses."""
    source = select.args.get("from_")
    joins = select.args.get("joins") or ()
    for item in (*(() if source is None else (source.this,)), *(join.this for join in joins)):
        yield from _within(item)


def _within(item: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(item, exp.Paren | exp.Subquery) and isinstance(item.this, exp.Table):
        yield from _within(item.this)
    else:
        yield item
    for join in item.args.get("joins") or ():
        yield from _within(join.this)


def _has_rows(
    item: exp.Expr, common: set[str], catalog: Catalog, lock: exp.Expr, source: str, *, named: bool
) -> bool:
    """Whether an item of FROM is a table or a view; an error if it must be one and is not."""
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
        _refuse_kept(entry)
    if entry is not None:
        return True
    if named:
        wrong(f"{words_of(lock)} cannot be applied to {what}", lock, source)
    return False


def _refuse_kept(entry: ViewEntry) -> NoReturn:
    name = entry.name.rpartition(".")[2]
    error = ProgrammingError(f'cannot lock rows in materialized view "{name}"')
    error.sqlstate = "42809"
    raise error


def located(select: exp.Expr, found: Sequence[Target], before: str = "") -> exp.Expr:
    """The query with two columns more for each of its targets: the table that a row is of, and its place."""
    columns = [
        exp.alias_(exp.column(name, table=one.alias, quoted=True), f"{before}{shown} {place}", quoted=True)
        for place, one in enumerate(found)
        for name, shown in zip(one.columns, ("tableoid", "ctid"), strict=True)
    ]
    made = select.copy()
    made.set("expressions", [*made.expressions, *columns])
    return made


def limits(select: exp.Expr) -> tuple[int | None, int] | None:
    """The constants of LIMIT and OFFSET; None if there are none, or one is no plain number."""
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


def limited(select: exp.Expr, count: int | None) -> exp.Expr:
    """The query with so many of its rows, or all."""
    made = select.copy()
    made.set("offset", None)
    made.set("limit", None if count is None else exp.Limit(expression=exp.Literal.number(count)))
    return made


def with_common(select: exp.Select, clause: exp.Expr | None) -> exp.Select:
    """A subquery by itself, with the WITH queries that it may name: those around it, and a statement's."""
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


def rowids_of(places: Words) -> Words:
    """The rowids that places tell."""
    told = places - 1
    return told // SPAN * BLOCK + told % SPAN


def of_rows(names: Sequence[str], rows: Sequence[Sequence[Literal]], nothing: Sequence[Literal]) -> exp.Expr:
    """A query of these rows; ``nothing`` are NULLs of the columns' types, if there is none."""

    def listed(row: Sequence[exp.Expr]) -> list[exp.Expr]:
        return [exp.alias_(one, name, quoted=True) for one, name in zip(row, names, strict=True)]

    if len(rows) == 1:
        return exp.Select(expressions=listed([known(value) for value in rows[0]]))
    if not rows:
        made = exp.Select(expressions=listed([known(value) for value in nothing]))
        made.set("where", exp.Where(this=exp.Boolean(this=False)))
        return made
    columns = [exp.to_identifier(f"c{place}") for place in range(len(names))]
    alias = exp.TableAlias(this=exp.to_identifier("locked"), columns=columns)
    values = exp.Values(
        expressions=[exp.Tuple(expressions=[known(value) for value in row]) for row in rows], alias=alias
    )
    return exp.Select(
        expressions=listed([exp.column(f"c{place}") for place in range(len(names))]),
        from_=exp.From(this=values),
    )


def of_table(names: Sequence[str], table: str) -> exp.Expr:
    """A query of the rows of a table, which has columns of these names."""
    source = exp.Table(this=exp.to_identifier(table, quoted=True))
    columns = [exp.alias_(exp.column(f"c{place}"), name, quoted=True) for place, name in enumerate(names)]
    return exp.Select(expressions=columns, from_=exp.From(this=source))
