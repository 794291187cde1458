"""The types of parameters that a client has given none for, from where they stand, as Postgres finds them.

A slot (``sql/parameterize/parameters.py``) stands for each value while the statement is planned. It remembers
what the binder makes of it: the column that it is compared with makes it one of the column's type.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kpg.compiler.sql.parameterize.generic_plans import Assignments, Types, places_assigned, types_of_places
from kpg.compiler.sql.parameterize.normalization import Asked, asked, marked_statement
from kpg.compiler.sql.parameterize.parameters import rows_of_places, slots_in, written
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.system.oids import type_facts
from kpg.engine.engine import Engine
from kpg.queries.planning import bind
from kpg.runtime.errors import CanceledError
from kpg.runtime.types import Kind

TEXT: Final = 25
BIGINT: Final = 20
SAMPLES: Final[dict[Kind, tuple[str, str]]] = {
    Kind.BOOLEAN: ("true", "false"),
    **dict.fromkeys((Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT), ("1", "1")),
    **dict.fromkeys((Kind.REAL, Kind.DOUBLE, Kind.DECIMAL, Kind.NUMERIC), ("1", "1")),
    **dict.fromkeys((Kind.VARCHAR, Kind.CHAR), ("a", "a")),
    **dict.fromkeys((Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ), ("2000-01-01", "2000-01-01")),
    Kind.UUID: (str(UUID(int=1)), str(UUID(int=1))),
}
"""Two values of types, as texts."""
ARRAYS_OF_TEXT: Final = {1015: 1009}
"""Those of VARCHAR are compared as those of text."""
COUNT: Final = re.compile(r"\b(?:limit|offset|first|next)\s+\$(\d+)\b(?!\s*[-+*/%:])", re.IGNORECASE)


def numbers_of(engine: Engine, text: str, statement: ast.Statement | None, given: Sequence[int]) -> list[int]:
    """The numbers of the types of all parameters; those of text where nothing tells more."""
    if all(given):
        return list(given)
    known = engine.catalog.known_type
    cast, met = types_of_places(statement, lambda type_: known(type_, None)) if statement else ({}, {})
    if isinstance(statement, ast.Insert):
        found = _of_insert(engine, statement, len(given))
    else:
        found = _of_others(engine, text, len(given), cast)
    if isinstance(statement, ast.Update):
        found |= _of_assignments(engine, statement.table, statement.assignments)
    counts = {int(one[1]) - 1: BIGINT for one in COUNT.finditer(text)}
    found = _numbers(met) | found | counts | _numbers(cast)
    return [number or found.get(place, TEXT) for place, number in enumerate(given)]


def _numbers(types: Types) -> dict[int, int]:
    return {place: type_facts(type_)[2] for place, type_ in types.items()}


def _of_insert(engine: Engine, statement: ast.Insert, count: int) -> dict[int, int]:
    """By the columns that the values of an INSERT are for."""
    schema = engine.catalog.table(statement.table).schema
    names = [name.lower() for name in schema.names]
    listed = statement.columns or schema.names
    places = [names.index(name.lower()) for name in listed]
    found: dict[int, int] = {}
    for row in rows_of_places(statement.query.query):
        for column, parameter in zip(places, row, strict=False):
            if parameter is not None and parameter <= count:
                found.setdefault(parameter - 1, type_facts(schema.types[column])[2])
    if statement.conflict is not None:
        found |= _of_assignments(engine, statement.table, statement.conflict.assignments)
    return found


def _of_assignments(engine: Engine, table: str, assignments: Assignments) -> dict[int, int]:
    """By the columns that parameters are assigned to."""
    schema = engine.catalog.table(table).schema
    types = {name.lower(): type_ for name, type_ in zip(schema.names, schema.types, strict=True)}
    return {
        place: type_facts(types[column])[2]
        for column, place in places_assigned(assignments)
        if column in types
    }


def _of_others(engine: Engine, text: str, count: int, cast: Types) -> dict[int, int]:
    """By the plan with slots for all; where that has none, with values for those that are cast to a type.

    Where that has none either, it is done with a slot for one after the other, beside NULLs.
    """
    found = _slotted(engine, text, [""] * count)
    if found is not None:
        return found
    found = {}
    for way in (0, 1):  # true and false, of which one may leave nothing of what it stands beside
        samples = {
            place: written(SAMPLES[type_.kind][way], type_facts(type_)[0])
            for place, type_ in cast.items()
            if type_.kind in SAMPLES
        }
        if samples:
            found |= _slotted(engine, text, [""] * count, samples) or {}
    for place in range(count):
        values: list[Any] = [None] * count
        values[place] = ""
        found = (_slotted(engine, text, values) or {}) | found
    return found


def _slotted(
    engine: Engine, text: str, values: list[Any], samples: Mapping[int, Any] = MappingProxyType({})
) -> dict[int, int] | None:
    question = asked(text, values)
    if question is None:
        return None
    given = ((name, samples.get(place, one)) for place, (name, one) in enumerate(question.given))
    try:
        return _converted(engine, replace(question, given=tuple(given)))
    except CanceledError:
        raise
    except Exception:
        # A slot is unlike any constant: whatever looks at it raises what it likes.
        return None


def _converted(engine: Engine, question: Asked) -> dict[int, int]:
    constants = len(question.normal.constants)
    statement = marked_statement(question, tuple(range(constants)))
    if not isinstance(statement, ast.Select | ast.Update | ast.Delete):
        return {}
    # It is not planned: what folds constants would look at the slots.
    bound = bind(statement, engine.reading_catalog).rel
    found: dict[int, int] = {}
    for slot in slots_in(bound):
        if slot.steps:
            # What the text is first read as is what Postgres would have the parameter be.
            number = type_facts(slot.steps[0][1])[2]
            found.setdefault(slot.number - constants, ARRAYS_OF_TEXT.get(number, number))
    return found
