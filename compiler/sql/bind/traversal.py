"""SEARCH and CYCLE of a recursive query, rewritten as columns of its two parts.

``SEARCH DEPTH FIRST BY a SET o``: o is the array of the values of a on the path to the row. With ``BREADTH``,
o is the path's length and its last value. ``CYCLE a SET m USING p``: p is the array of the values of a on the
path. m tells whether the last value occurred before; such a row is not expanded.
"""

from collections.abc import Sequence

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding

PREVIOUS = "before"


def rewrite_traversal(binding: Binding, common: exp.Expr) -> exp.Expr:
    """Return a WITH query with its SEARCH and CYCLE clauses rewritten as columns."""
    search, cycle = common.args.get("search"), common.args.get("cycle")
    if search is None and cycle is None:
        return common
    union = common.this
    while isinstance(union, exp.Subquery) and union.args.get("alias") is None:
        union = union.this
    step = union.expression if isinstance(union, exp.Union) else None
    if not isinstance(union, exp.Union) or not isinstance(step, exp.Select):
        binding.refuse("SEARCH or CYCLE of anything but query UNION ALL SELECT", common)
    columns = _column_names(binding, common, union.this)
    added: list[tuple[str, exp.Expr, exp.Expr]] = []
    if search is not None:
        added += _search_columns(binding, search)
    if cycle is not None:
        added += _cycle_columns(binding, cycle)
    names = [name for name, _, _ in added]
    first = _wrap_query(union.this, [*columns], [value for _, value, _ in added], columns)
    inner = _extend_step(binding, step, common.alias, names, cycle)
    before = [f"{PREVIOUS}_{place}" for place in range(len(names))]
    second = _wrap_query(inner, [*columns, *before], [value for _, _, value in added], columns)
    for place, name in enumerate(names):
        for node in list(second.find_all(exp.Column)):
            if node.name == f"{PREVIOUS} {name}":
                node.replace(_column(before[place]))
    made = common.copy()
    made.set("search", None)
    made.set("cycle", None)
    made.set("this", exp.Union(this=first, expression=second, distinct=union.args.get("distinct")))
    made.args["alias"].set("columns", [_identifier(one) for one in (*columns, *names)])
    return made


def _column_names(binding: Binding, common: exp.Expr, first: exp.Expr) -> list[str]:
    given = [column.name for column in common.args["alias"].args.get("columns") or []]
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    listed = first.expressions if isinstance(first, exp.Select) else []
    known = [part.alias_or_name for part in listed]
    starred = any(part.is_star for part in listed)
    if starred or (isinstance(first, exp.Values) and not given):
        if not given:
            hint = "list the column names after the name of the query"
            binding.refuse("SEARCH or CYCLE of a query with unnamed columns", common, hint)
        return given
    return [*given, *known[len(given) :]]


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _column(name: str) -> exp.Column:
    return exp.column(_identifier(name), table=_identifier("traversed"))


def _row(names: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Anonymous(this="row", expressions=list(names))


def _previous(name: str) -> exp.Column:
    """Return a placeholder for a column of the previous row, which a later pass replaces."""
    return exp.column(_identifier(f"{PREVIOUS} {name}"), table=_identifier("traversed"))


def _clause_name(binding: Binding, clause: exp.Expr, part: str, requirement: str) -> str:
    found = clause.args.get(part)
    if found is None:
        binding.fail(f"this needs {requirement}", clause)
    return str(found.name)


def _search_columns(binding: Binding, search: exp.Expr) -> list[tuple[str, exp.Expr, exp.Expr]]:
    """Return the name of the SEARCH column, its value in initial rows, and its value in later rows."""
    name = _clause_name(binding, search, "into", "SET and the name of a column")
    by = [_column(one.name) for one in search.expressions]
    if search.args["depth"]:
        way = exp.Array(expressions=[_row(by)])
        return [(name, way, exp.DPipe(this=_previous(name), expression=_row([one.copy() for one in by])))]
    zero = exp.Literal.number(0)
    length = exp.Dot(this=exp.Paren(this=_previous(name)), expression=exp.to_identifier("f1"))
    longer = exp.Add(this=length, expression=exp.Literal.number(1))
    return [(name, _row([zero, *by]), _row([longer, *(one.copy() for one in by)]))]


def _cycle_columns(binding: Binding, cycle: exp.Expr) -> list[tuple[str, exp.Expr, exp.Expr]]:
    """Return the names of the CYCLE columns, their values in initial rows, and in later rows."""
    mark = _clause_name(binding, cycle, "into", "SET and the name of a column")
    path = _clause_name(binding, cycle, "using", "USING and the name of a column")
    by = [_column(one.name) for one in cycle.expressions]
    again = exp.EQ(this=_row(by), expression=exp.Any(this=_previous(path)))
    yes, no = _cycle_marks(cycle)
    marked = exp.Case(ifs=[exp.If(this=again, true=yes)], default=no.copy())
    way = exp.Array(expressions=[_row([one.copy() for one in by])])
    longer = exp.DPipe(this=_previous(path), expression=_row([one.copy() for one in by]))
    return [(mark, no, marked), (path, way, longer)]


def _cycle_marks(cycle: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    yes, no = cycle.args.get("to"), cycle.args.get("default")
    if yes is None or no is None:
        return exp.Boolean(this=True), exp.Boolean(this=False)
    return yes.copy(), no.copy()


def _wrap_query(
    query: exp.Expr, source_columns: list[str], values: Sequence[exp.Expr], columns: Sequence[str]
) -> exp.Select:
    alias = exp.TableAlias(
        this=_identifier("traversed"), columns=[_identifier(one) for one in source_columns]
    )
    source = exp.Subquery(this=query.copy(), alias=alias)
    items = [*(_column(one) for one in columns), *(value.copy() for value in values)]
    return exp.Select(expressions=items, from_=exp.From(this=source))


def _extend_step(
    binding: Binding, step: exp.Select, name: str, names: Sequence[str], cycle: exp.Expr | None
) -> exp.Select:
    """Add the traversal columns of the previous row to the step.

    With CYCLE, the step does not expand rows that close a cycle.
    """
    step = step.copy()
    tables = [table for table in step.find_all(exp.Table) if table.name.lower() == name.lower()]
    if len(tables) != 1 or tables[0].find_ancestor(exp.Select) is not step:
        binding.refuse("SEARCH or CYCLE of a query that does not reference itself exactly once in FROM", step)
    alias = tables[0].alias_or_name
    for item in step.expressions:
        if isinstance(item, exp.Star) or (item.is_star and item.args["table"].name.lower() == alias.lower()):
            hint = "name the columns"
            binding.refuse(f"* with the columns of {name} in a step with SEARCH or CYCLE", item, hint)
    step.set(
        "expressions",
        [*step.expressions, *(exp.column(_identifier(one), table=_identifier(alias)) for one in names)],
    )
    if cycle is not None:
        mark = exp.column(_identifier(cycle.args["into"].name), table=_identifier(alias))
        step = step.where(exp.NEQ(this=mark, expression=_cycle_marks(cycle)[0]), copy=False)
    return step
