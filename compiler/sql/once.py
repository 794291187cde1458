"""Parts of a query that are computed before it: LIMITs that ask queries, and calls about settings."""

from collections.abc import Callable, Sequence

from sqlglot import exp

SETTINGS = frozenset(("current_setting", "set_config"))


def _asking(tree: exp.Expr) -> list[exp.Expr]:
    """The LIMIT, OFFSET and FETCH clauses whose numbers are queries."""
    clauses = tree.find_all(exp.Limit, exp.Offset, exp.Fetch)
    return [clause for clause in clauses if (part := _number(clause)) is not None and part.find(exp.Subquery)]


def _number(clause: exp.Expr) -> exp.Expr | None:
    return clause.args.get("count" if isinstance(clause, exp.Fetch) else "expression")


def limits(tree: exp.Expr) -> list[exp.Expr]:
    """A query for each number that is to be computed."""
    found: list[exp.Expr] = []
    for clause in _asking(tree):
        number = _number(clause)
        assert number is not None
        query = exp.Select(expressions=[number.copy()])
        if tree.args.get("with_") is not None:
            query.set("with_", tree.args["with_"].copy())
        found.append(query)
    return found


def with_limits(tree: exp.Expr, numbers: Sequence[int | None]) -> exp.Expr:
    """The tree with these in their places."""
    tree = tree.copy()
    for clause, number in zip(_asking(tree), numbers, strict=True):
        value: exp.Expr = exp.Null() if number is None else exp.Literal.number(abs(number))
        if number is not None and number < 0:
            value = exp.Neg(this=value)
        clause.set("count" if isinstance(clause, exp.Fetch) else "expression", value)
    return tree


def settings(tree: exp.Expr) -> bool:
    """Whether a query asks for settings, or sets some."""
    return any(str(node.this).lower() in SETTINGS for node in tree.find_all(exp.Anonymous))


def with_settings(tree: exp.Expr, value: Callable[[str, list[str]], str | None]) -> exp.Expr:
    """The tree with what the calls give in their places."""

    def constant(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in SETTINGS:
            return node
        if isinstance(node.expressions[0] if node.expressions else None, exp.Column):
            return node  # of each row: see bind/system.py
        args = [str(part.this) if isinstance(part, exp.Boolean) else part.name for part in node.expressions]
        name = str(node.this).lower()
        found = value(name, args)
        made = exp.Cast(
            this=exp.Null() if found is None else exp.Literal.string(found), to=exp.DataType.build("text")
        )
        listed = isinstance(node.parent, exp.Select) and node in node.parent.expressions
        return exp.alias_(made, name) if listed else made

    return tree.transform(constant)
