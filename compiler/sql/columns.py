"""Columns that change under the expressions that name them."""

from sqlglot import exp

from kpg.compiler.catalog import Catalog, TableEntry
from kpg.compiler.sql.bind.calls import assigned, check_assignable
from kpg.compiler.sql.ddl.reader import parsed_expression
from kpg.compiler.sql.rules import over_row
from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import castable
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import ColumnDef, Type


def uses(text: str, column: str) -> bool:
    """Whether an expression names a column."""
    if not text:
        return False
    return any(node.name.lower() == column.lower() for node in parsed_expression(text).find_all(exp.Column))


def renamed(text: str, old: str, new: str) -> str:
    """An expression with another name for a column."""
    if not uses(text, old):
        return text
    tokens = tokenize(text)
    for place in range(len(tokens) - 1, -1, -1):
        token = tokens[place]
        called = place + 1 < len(tokens) and tokens[place + 1].text == "("
        if token.text.lower() == old.lower() and not called and token.token_type.name != "STRING":
            plain = new.isidentifier() and new == new.lower()
            name = new if plain else '"' + new.replace('"', '""') + '"'
            text = text[: token.start] + name + text[token.end + 1 :]
    return text


def converted(entry: TableEntry, place: int, type_: Type, using: str, catalog: Catalog) -> Mfp:
    """A row mapped to the same with one column of another type: the value of ``using``, or a cast.

    ProgrammingError if there is no cast that is made without being asked for.
    """
    column = entry.schema.columns[place]
    new = ColumnDef(column.name, type_)
    if using:
        binding, scope = over_row(entry, using, catalog)
        node = parsed_expression(using)
        scalar = binding.expression(scope.without_aggregates("USING"), node)
        value = assigned(binding, scalar, new, node)
    else:
        binding, _ = over_row(entry, column.name, catalog)
        node = exp.column(column.name)
        if not type_.is_text:
            try:
                check_assignable(binding, column.type, new, node)
            except ProgrammingError:
                raise ProgrammingError(
                    f"column {column.name} cannot be turned into {type_} by itself",
                    hint=f"write USING {column.name}::{type_}",
                ) from None
        old = Column(place, column.type)
        if column.type != type_ and not castable(column.type, type_):
            raise ProgrammingError(f"cannot cast {column.type} to {type_}")
        value = old if column.type == type_ else Call("cast", (old,), type_, stored=column.name)
    row = (
        value if index == place else Column(index, other.type)
        for index, other in enumerate(entry.schema.columns)
    )
    return Mfp((), tuple(row))
