"""Rows of relations as values: ``t``, ``t.*`` and fields ``(t).a`` of such."""

from collections.abc import Sequence

from sqlglot import exp

from kpg.compiler.sql.bind.calls import settled
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.syntax import only
from kpg.runtime.functions import is_function
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import INTEGER, Kind, record


def bind_whole_row(binding: Binding, scope: Scope, node: exp.Column) -> Scalar | None:
    """The row of a relation that is named in the place of a column, or what a function that is named as a
    column of it makes of the row; None if the node is a column.
    """
    starred = isinstance(node.this, exp.Star)
    if not starred and node.table and binding.catalog.find_routines(node.name.lower(), ""):
        return _called_as_column(binding, scope, node)
    if not starred and (node.args.get("table") is not None or not isinstance(node.this, exp.Identifier)):
        return None
    fields = fields_of(scope, node.table if starred else node.name, column_first=not starred)
    if fields is None:
        return None
    binding.use(fields)
    columns = tuple(one.column for one in fields)
    type_ = record([one.type for one in columns], [one.name for one in fields])
    padded = any(column.index in binding.padded for column in columns)
    return Call("$whole_row" if padded else "$row", columns, type_)


def _called_as_column(binding: Binding, scope: Scope, node: exp.Column) -> Scalar | None:
    """``t.f`` for ``f(t)``; None if t has a column f."""
    fields = fields_of(scope, node.table, column_first=False)
    if fields is None or any(one.name.lower() == node.name.lower() for one in fields):
        return None
    row = exp.Column(this=node.args["table"].copy()).update_positions(node.this)
    return binding.expression(scope, exp.Anonymous(this=node.name, expressions=[row]))


def field_called(binding: Binding, scope: Scope, node: exp.Anonymous) -> Scalar | None:
    """``name(t)`` for ``t.name``, where there is no function of that name; None for any other call."""
    name = str(node.this).lower()
    match node.expressions:
        case [exp.Column(this=exp.Identifier()) as row] if not row.table and not is_function(name):
            fields = fields_of(scope, row.name, column_first=True)
            found = [one for one in fields or () if one.name.lower() == name]
            if not found:
                return None
            binding.use(found)
            return found[0].column
        case _:
            return None


def fields_of(scope: Scope, name: str, *, column_first: bool) -> list[Field] | None:
    """The fields of the relation of that name; None if there is none, or a column of it comes first."""
    wanted = name.lower()
    here: Scope | None = scope
    while here is not None:
        if column_first and (wanted in here.whole or any(one.name.lower() == wanted for one in here.fields)):
            return None
        if wanted in here.relations():
            return [one for one in here.fields if one.relation.lower() == wanted and not one.of_system]
        here = here.parent
    return None


def made_row(binding: Binding, scope: Scope, parts: Sequence[exp.Expr]) -> Scalar:
    """``ROW(...)`` as a value; ``t.*`` in it stands for the columns of t."""
    fields: list[Scalar] = []
    for part in parts:
        if isinstance(part, exp.Column) and isinstance(part.this, exp.Star):
            found = fields_of(scope, part.table, column_first=False)
            if found is None:
                binding.wrong(f'missing FROM entry for "{part.table}"', part)
            binding.use(found)
            fields += [one.column for one in found]
        else:
            fields.append(settled(binding.expression(scope, part)))
    names = [f"f{place + 1}" for place in range(len(fields))]
    return Call("$row", tuple(fields), record([field.type for field in fields], names))


def fields_of_row(binding: Binding, value: Scalar, node: exp.Expr) -> list[tuple[str, Scalar]]:
    """``(row).*``: the fields of a row with their names."""
    if value.type.kind is not Kind.RECORD:
        binding.wrong(f"{value.type} has no fields", node)
    parts = value.type.parts
    if isinstance(value, Call) and value.function in ("$whole_row", "$row"):
        return list(zip(value.type.labels, value.args, strict=True))
    return [
        (name, Call("$row_field", (value, Literal(place, INTEGER)), parts[place]))
        for place, name in enumerate(value.type.labels)
    ]


def bind_field(binding: Binding, scope: Scope, node: exp.Dot) -> Scalar:
    """``(row).field``."""
    only(node, binding.source, "this", "expression")
    value = binding.expression(scope, node.this)
    if value.type.kind is not Kind.RECORD or not isinstance(node.expression, exp.Identifier):
        binding.refuse("a field of anything but a row", node)
    names = [name.lower() for name in value.type.labels]
    if node.expression.name.lower() not in names:
        binding.wrong(f'"{node.expression.name}" is no field of {value.type}', node)
    place = names.index(node.expression.name.lower())
    return Call("$row_field", (value, Literal(place, INTEGER)), value.type.parts[place])
