"""EXECUTE of constants: the prepared text as a statement with parameters, which may have its plan already."""

from kpg.compiler.sql.bind.literals import convert, meant
from kpg.compiler.sql.parameterize.normalization import Asked, Given, normal
from kpg.compiler.sql.parameterize.parameters import Parameters
from kpg.compiler.sql.parameterize.value_lists import constant, executed
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.engine.engine import Engine
from kpg.runtime.errors import Error
from kpg.runtime.scalar import Literal
from kpg.runtime.types import UNKNOWN, Kind, Type


def asked_by_name(engine: Engine, text: str) -> Asked | None:
    """An EXECUTE as the statement that was prepared, and its values; None if there is more to it."""
    found = executed(text)
    prepared = None if found is None else engine.prepared.get(found[0].lower())
    if found is None or prepared is None:
        return None
    cells, types = found[1], prepared.types
    statement = normal(prepared.text)
    if statement is None or (types and len(types) != len(cells)):
        return None
    given: list[tuple[str | int, Given]] = []
    for place, cell in enumerate(cells):
        try:
            value = _given(engine, cell, types[place] if types else "unknown")
        except Error:
            return None
        if value is None and cell[0] not in "nN":
            return None
        given.append((place, value))

    def syntax() -> Parameters:
        declared = types or ("unknown",) * len(cells)
        pairs = zip(cells, declared, strict=True)
        return [parsed_expression(one if _is_open(type_) else f"({one})::{type_}") for one, type_ in pairs]

    return Asked(prepared.text, syntax, statement, tuple(given))


def _is_open(declared: str) -> bool:
    return declared.lower() == "unknown"


def _given(engine: Engine, cell: str, declared: str) -> Given:
    """A value as a constant of its type; None for NULL, and for what is no constant of it."""
    if cell[0] in "nN":
        return None
    literal = constant(cell)
    if literal is None or _is_open(declared):
        return bool(literal.value) if literal is not None and literal.type.kind is Kind.BOOLEAN else literal
    type_ = _type(engine, declared)
    if type_.kind in (Kind.BOOLEAN, Kind.ENUM) or type_.limits_length:
        return None
    if literal.type == UNKNOWN:
        return meant(literal, type_)
    cast = literal if literal.type == type_ else convert(literal, type_)
    return cast if isinstance(cast, Literal) else None


def _type(engine: Engine, declared: str) -> Type:
    known = engine.remembered.types.get(declared)
    if known is None:
        known = sql_type(parsed_expression(f"null::{declared}").args["to"], declared)
        engine.remembered.types.put(declared, known)
    return known
