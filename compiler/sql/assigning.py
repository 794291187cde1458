"""SET of a part of a column, as the syntax tree of the whole column's new value."""

from typing import ClassVar

from sqlglot import exp

from kpg.runtime.types import Schema

TYPE = "type"
"""What is known of a :class:`Blank`."""


class Assigned(exp.Expression):
    """The value ``this`` with ``expression`` as its ``part``: a field's name, or a subscript of nothing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "part": True, "expression": True}


class Blank(exp.Expression):
    """The NULL of the column that is named, whose type is known later (:data:`TYPE`)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parted(target: exp.Expr, value: exp.Expr) -> tuple[exp.Column, exp.Expr] | None:
    """The column of which a target is a part, and the column's new value; None if it is none."""
    parts: list[exp.Expr] = []
    while True:
        if isinstance(target, exp.Bracket):
            behind = parts.pop(0).expressions if parts and isinstance(parts[0], exp.Bracket) else []
            parts.insert(0, exp.Bracket(this=exp.Null(), expressions=[*target.expressions, *behind]))
            target = target.this
        elif isinstance(target, exp.Dot) and isinstance(target.expression, exp.Identifier):
            parts.insert(0, target.expression)
            target = target.this
        elif isinstance(target, exp.Column) and len(target.parts) > 1:
            first, *fields = target.parts  # what a query would take for the schema, the table and the column
            parts = [*fields, *parts]
            target = exp.Column(this=first)
        else:
            break
    if not parts or not isinstance(target, exp.Column):
        return None
    return target, _with(exp.Column(this=target.this.copy()), parts, value)


def _with(whole: exp.Expr, parts: list[exp.Expr], value: exp.Expr) -> exp.Expr:
    first, *rest = parts
    if rest:
        value = _with(_taken(whole, first), rest, value)
    return Assigned(this=whole, part=first.copy(), expression=value)


def _taken(whole: exp.Expr, part: exp.Expr) -> exp.Expr:
    if isinstance(part, exp.Identifier):
        return exp.Dot(this=exp.Paren(this=whole.copy()), expression=part.copy())
    return exp.Bracket(this=whole.copy(), expressions=[one.copy() for one in part.expressions])


def again(value: exp.Expr, before: exp.Expr) -> exp.Expr:
    """A part's assignment over what another part's has made of the same column."""
    made = value.copy()
    assert isinstance(made, Assigned)
    _over(made, before)
    return made


def _over(made: Assigned, whole: exp.Expr) -> None:
    inner = made.expression
    if isinstance(inner, Assigned):
        _over(inner, _taken(whole, made.args["part"]))
    made.set("this", whole.copy())


def typed(node: exp.Expr, schema: Schema) -> None:
    """Gives each blank the type of its column."""
    types = {name.lower(): type_ for name, type_ in zip(schema.names, schema.types, strict=True)}
    for blank in node.find_all(Blank):
        blank.meta[TYPE] = types.get(blank.name.lower())
