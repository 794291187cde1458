"""Constants as they are written in the rows of an INSERT, as values of the columns that they are stored in.

Only what a constant is at once: None stands for all else, what is wrong included, which the binder reads.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kpg.compiler.sql.bind.calls import unlimited
from kpg.compiler.sql.bind.literals import convert, from_text, meant, negated, number, rounded
from kpg.compiler.sql.slots import Beyond, Slot
from kpg.runtime.scalar import Literal
from kpg.runtime.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    ERROR,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Type,
    float_to_word,
)

LIMITS: Final = {Kind.SMALLINT: 2**15, Kind.INTEGER: 2**31, Kind.BIGINT: 2**63}
Stored = int | str | None
"""A word, or the text of an interned value; None for NULL."""


def column_values(cells: Sequence[str], type_: Type) -> list[Stored]:
    """The values of one column's cells; Beyond if one is more than a constant of that type."""
    nulls = [place for place, cell in enumerate(cells) if cell[0] in "nN"]
    if not nulls:
        return _present(cells, type_)
    found = iter(_present([cell for cell in cells if cell[0] not in "nN"], type_))
    missing = set(nulls)
    return [None if place in missing else next(found) for place in range(len(cells))]


def _present(cells: Sequence[str], type_: Type) -> list[Stored]:
    """The values of cells that are not NULL."""
    fast = _FAST.get(type_.kind)
    if fast is not None and cells:
        try:
            found = fast(cells, type_)
        except (ValueError, OverflowError):
            found = None
        if found is not None:
            return found
    known: dict[str, Stored] = {}
    for cell in cells:
        if cell not in known:
            known[cell] = _stored(cell, type_)
    return [known[cell] for cell in cells]


def _integers(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    limit = LIMITS[type_.kind]
    found = list(map(int, cells))
    return list(found) if max(found) < limit and min(found) >= max(-limit, ERROR + 1) else None


def _decimals(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    """Numbers of no more places than the column has; ValueError for cells that are not digits and a point."""
    scale, limit = type_.scale, 10**type_.precision
    found: list[Stored] = []
    for cell in cells:
        whole, _, part = cell.partition(".")
        missing = scale - len(part)
        word = int(whole + part) * 10**missing if missing >= 0 else limit
        if not -limit < word < limit:
            return None
        found.append(word)
    return found


def _doubles(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    if any("e" in cell or "E" in cell for cell in cells):
        return None
    return [float_to_word(float(cell.removesuffix("d"))) for cell in cells]


def _texts(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    if any(cell[0] != "'" for cell in cells):
        return None
    found: list[Stored] = [cell[1:-1].replace("''", "'") for cell in cells]
    return found


_FAST: Final[dict[Kind, Callable[[Sequence[str], Type], list[Stored] | None]]] = {
    Kind.SMALLINT: _integers,
    Kind.INTEGER: _integers,
    Kind.BIGINT: _integers,
    Kind.DECIMAL: _decimals,
    Kind.DOUBLE: _doubles,
    Kind.VARCHAR: _texts,
}
"""Readers of many plain cells; None or ValueError for cells that are not all so."""


def _stored(cell: str, type_: Type) -> Stored:
    """One constant as the binder's ``assigned`` stores it."""
    literal = constant(cell)
    if literal is None:
        raise Beyond
    value: Literal | None = None
    if literal.type == UNKNOWN:
        value = from_text(str(literal.value), Type(type_.kind) if type_.is_text else unlimited(type_))
    elif literal.type == type_:
        value = literal
    elif literal.type.is_exact and type_.is_exact:
        value = rounded(literal, type_)
    elif literal.type.is_numeric and type_.is_numeric:
        folded = convert(literal, type_)
        value = folded if isinstance(folded, Literal) else None
    if value is None:
        raise Beyond
    return value.value


def constant(cell: str) -> Literal | None:
    """The typed constant that is written, which is not NULL; None for DEFAULT, and for what is no value."""
    first = cell[0]
    if cell[-1] == "d":  # a float that was given for a placeholder
        return Literal(float_to_word(float(cell[:-1])), DOUBLE)
    if first == "'":
        return Literal(cell[1:-1].replace("''", "'"), UNKNOWN)
    if first == "-":
        positive = number(cell[1:])
        return None if positive is None else negated(positive)
    if first.isdigit():
        return number(cell)
    match cell.lower():
        case "true" | "false" as word:
            return Literal(int(word == "true"), BOOLEAN)
        case "default":
            return None
    quote = cell.index("'")
    type_ = DATE if cell[0] in "dD" else TIMESTAMP
    return from_text(cell[quote + 1 : -1].replace("''", "'"), type_)


def valued(slot: Slot, given: Literal) -> Literal:
    """The constant of a slot where ``given`` is written: what the binder did with the slot, done with it."""
    literal: object = given
    for how, type_ in slot.steps:
        assert isinstance(literal, Literal)
        match how:
            case "text":
                literal = meant(literal, type_)
            case "converted":
                literal = convert(literal, type_)
            case "rounded":
                literal = rounded(literal, type_)
            case "negated":
                literal = negated(literal)
            case _:
                literal = Literal(literal.value, type_)
        if not isinstance(literal, Literal):
            raise Beyond
    assert isinstance(literal, Literal)
    return literal
