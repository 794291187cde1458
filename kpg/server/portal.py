"""Prepared statements and portals of the extended protocol: bound to values, executed, and read in portions.

Parameter types that the client leaves open are inferred from their context, as in Postgres. For that the
statement is planned with a slot (``sql/parse/parameters.py``) in place of each parameter, and the binder
notes the type that it gives the slot, such as the type of the column compared with it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from kpg.api.result import PLAN as PLAN_COLUMN
from kpg.api.result import Result
from kpg.compiler.sql.bind.eager_subexpressions import settings, with_settings
from kpg.compiler.sql.parameterize.normalization import Asked, asked, marked_statement
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.generic_plans import Assignments, Types, places_assigned, types_of_places
from kpg.compiler.sql.parse.parameters import Binder, rows_of_places, slots_in, written
from kpg.compiler.system.oids import type_facts
from kpg.execute.queries import cursors, side_effects
from kpg.execute.queries.explain import type_of
from kpg.execute.queries.query_plan import bind, returned_shape
from kpg.execute.queries.result_rows import Decoded
from kpg.execute.scripts import gathers, word_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import CanceledError, InterfaceError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.styles import PLAIN, Style
from kpg.server import binary_format, binary_input, statement_cache
from kpg.server.binary_format import rows_of, text_writer
from kpg.server.binary_input import types_of_users
from kpg.server.statement_cache import Repeated, Request, repeated
from kpg.server.subscribe import Subscribe
from kpg.session.engine import Engine
from kpg.session.settings import executed

if TYPE_CHECKING:
    from kpg.session.session import Session


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


Row = tuple[bytes | None, ...]


class Shape(NamedTuple):
    """Columns that are given: their names and types, and which columns of relations they are."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    origins: tuple[tuple[str, int], ...] = ()


CONTEXT: Final = binary_input.LIKE_TEXT | binary_input.BY_NAME.keys() | {1014, 1561}
"""The numbers of types whose values are literals whose context tells their type."""
VOID: Final = 2278
"""The number of the type of a call's OUT parameters."""
OTHERS: Final = {1015: "TEXT[]", 1560: "BIT VARYING"}
"""Of types that are known by another name: of any length."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that waits for its values; None is the empty one."""

    text: str
    statement: ast.Statement | Subscribe | None
    parameters: tuple[int, ...]
    told: Shape | None = None
    """The columns that its client was told of, as of that ``version`` of definitions."""
    version: int = -1

    def bind(
        self,
        values: Sequence[bytes | None],
        formats: Sequence[int],
        known: Mapping[int, Type] = MappingProxyType({}),
    ) -> "ast.Statement | Subscribe | None":
        """The statement with values; DataError for one that is malformed.

        ``known``: types that users have made, by their numbers, as far as there are binary values of these.
        """
        if self.statement is None:
            return None
        forms = spread(formats, len(values))
        literals = [
            written(_text(value, form, number, known), name_of(number))
            for value, form, number in zip(values, forms, self.parameters, strict=True)
        ]
        return Binder(literals).bind(self.statement)

    def declared(self, engine: Engine) -> tuple[str, ...]:
        """See Parsed."""
        statement = None if isinstance(self.statement, Subscribe) else self.statement
        users = types_of_users(engine.catalog)
        numbers = numbers_of(engine, self.text, statement, self.parameters)
        types = (binary_input.type_of(number) or users.get(number) for number in numbers)
        return tuple("unknown" if type_ is None else type_facts(type_)[0] for type_ in types)

    def asked(
        self, values: Sequence[bytes | None], formats: Sequence[int]
    ) -> tuple[str, list[Any] | None] | None:
        """Its text and Python values, if it may be run from these."""
        if word_of(self.text) is None or len(values) != len(self.parameters):
            return None
        found = statement_cache.values_of(values, formats, self.parameters)
        return None if found is None else (self.text, found or None)


def name_of(number: int) -> str | None:
    """The type that a parameter's value is cast to; None if its context tells."""
    if number in CONTEXT:
        return None
    type_ = binary_input.type_of(number)
    return OTHERS.get(number) or (None if type_ is None else type_facts(type_)[0])


def spread(formats: Sequence[int], count: int) -> list[int]:
    """A format for each of some values: none given means text, one given is for all."""
    if len(formats) == 1:
        return list(formats) * count
    if formats and len(formats) != count:
        raise InterfaceError(f"{len(formats)} formats are given for {count} values")
    return list(formats) or [0] * count


def _text(value: bytes | None, format_: int, number: int, known: Mapping[int, Type]) -> str | None:
    """The text of a value that came for a parameter of the type of that number (0: unknown)."""
    if value is None:
        return None
    return binary_input.text_of_number(value, number, known) if format_ else binary_input.text_in(value)


def shape_of(engine: Engine, statement: ast.Statement | None) -> Shape | None:
    """The columns that a statement will give; None if it gives no rows, or runs before it can tell."""
    catalog = engine.reading_catalog
    if isinstance(statement, ast.Select):
        if settings(statement.query):  # which only the query itself sets
            statement = replace(statement, query=with_settings(statement.query, lambda name, args: None))
        if side_effects.acts(statement):
            statement = side_effects.idle(statement)
        bound = bind(statement, catalog)
        return Shape(bound.names[: bound.visible], bound.types[: bound.visible], bound.origins)
    if isinstance(statement, ast.Execute):
        return shape_of(engine, executed(engine, statement))
    if isinstance(statement, ast.Fetch):
        declared = None if statement.moves else cursors.shape_of(engine, statement.name)
        return None if declared is None else Shape(*declared)
    if isinstance(statement, ast.Explain | ast.ExplainView):
        return Shape((PLAN_COLUMN,), (type_of(statement.how),))
    if not isinstance(statement, ast.Insert | ast.Delete | ast.Update) or not statement.returning:
        return None
    return Shape(*returned_shape(statement, catalog))


def gives_rows(statement: ast.Statement | Subscribe | None) -> bool:
    """Whether a statement that changes nothing has to run before it is known what columns it gives."""
    return isinstance(
        statement,
        ast.ExplainRow | ast.ShowTables | ast.Describe | ast.VerifyView | ast.Show,
    )


NOTHING: Final = Repeated(b"", 0, b"", 0)


@dataclass(frozen=True, slots=True)
class Usual:
    """A statement that may come again with other values: as it is asked for, and as it is answered."""

    text: str
    word: str
    name: str
    """Of the prepared statement; ``prepared`` is None for the text of a Query."""
    prepared: Prepared | None
    takers: Sequence[statement_cache.Taker]
    known: Repeated
    described: bool
    formats: tuple[int, ...]
    adds: bool | Callable[[Engine], bool]
    binaries: tuple[int, ...] = ()
    """The forms of values, a one for each that is binary."""

    def binary(self, position: int) -> bool:
        """Whether the value at a position is binary."""
        return bool(self.binaries[position])

    @staticmethod
    def of(prepared: Prepared | None, request: Request, text: str, word: str, data: bytes) -> "Usual":
        """Of the first request for it."""
        takers: Sequence[statement_cache.Taker] = ()
        binaries: Sequence[int] = ()
        known = NOTHING
        if prepared is not None:
            binaries = spread(request.formats, len(request.values))
            takers = statement_cache.takers_of(binaries, prepared.parameters) or ()
            known = repeated(data, request)
        name = request.name or ""
        described, results, adds = request.described, request.results, gathers(text)
        return Usual(text, word, name, prepared, takers, known, described, results, adds, tuple(binaries))


class Portal:
    """A statement with values. It runs once, when its rows or their columns are first asked for."""

    def __init__(
        self,
        statement: ast.Statement | Subscribe | None,
        formats: Sequence[int],
        quick: tuple[str, list[Any] | None] | None = None,
    ) -> None:
        """``quick``: it is run from this text and these values, not as the statement."""
        self.statement = statement
        self.quick = quick
        self.formats = formats
        self.outcome: Result | None = None
        self.ran = False
        self.position = 0
        self.tag = ""
        """What its end is announced with, if its words do not tell."""
        self.ended = False
        """Whether its end has been announced."""
        self.text = ""
        self.prepared = ""
        """The name of the prepared statement that it was bound from; empty for the unnamed one."""
        self.moment = 0
        """When it was made, in microseconds since 1970."""

    def check(self, name: str, session: "Session | None") -> None:
        """InterfaceError if there is nothing more to be done by it."""
        if self.ran and session is not None:
            session.transactions.check()
        if self.ended and self.shape is None and self.statement is not None:
            error = InterfaceError(f'portal "{name}" cannot be run')
            error.sqlstate = "55000"
            raise error

    @property
    def shape(self) -> Shape | None:
        """The columns of the rows that it gives, once it has run."""
        return None if self.outcome is None else shape_of_result(self.outcome)

    def rows(self, most: int, dictionary: Dictionary, style: Style = PLAIN) -> list[Row]:
        """The next rows, up to ``most``, as they are sent."""
        outcome = self.outcome
        if outcome is None or shape_of_result(outcome) is None:
            return []
        start = self.position
        formats = spread(self.formats, len(outcome.types))
        rows = encoded(outcome, start, start + most, formats, dictionary, style)
        self.position += len(rows)
        return rows

    @property
    def done(self) -> bool:
        """Whether all rows have been given."""
        return self.outcome is None or self.shape is None or self.position >= len(self.outcome)


def shape_of_result(outcome: Result | None) -> Shape | None:
    """The columns of a result; None for a mere count."""
    if outcome is None or outcome.is_count:
        return None
    return Shape(tuple(outcome.columns), tuple(outcome.types), outcome.origins)


def encoded(
    outcome: Result,
    start: int,
    stop: int,
    formats: Sequence[int],
    dictionary: Dictionary,
    style: Style = PLAIN,
) -> list[Row]:
    """Some rows of a result as they are sent."""
    contents = outcome.contents
    if isinstance(contents, Decoded):
        return rows_of(contents.words[:, start:stop], contents.types, formats, dictionary, style)
    writers = [
        (codec_of(type_).from_python, binary_format.writer_of(type_) if form else text_writer(type_, style))
        for type_, form in zip(outcome.types, formats, strict=True)
    ]
    return [
        tuple(
            None if value is None else write(take(value))
            for value, (take, write) in zip(row, writers, strict=True)
        )
        for row in contents.part(start, stop)
    ]
