"""Prepared statements and portals of the extended protocol.

A portal is a statement with values. It runs once, and its rows are read in portions.

Parameter types that the client leaves open are inferred from their context, as in Postgres. The
statement is bound with a placeholder (``sql/parse/parameters.py``) for each parameter. The binder
records the type that it gives to the placeholder, such as that of the column compared with it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from kpg.api.result import PLAN_COLUMN as PLAN_COLUMN
from kpg.api.result import Result
from kpg.compiler.sql.bind.eager_subexpressions import calls_settings, substitute_settings
from kpg.compiler.sql.parameterize.normalization import (
    NormalizedStatement,
    normalize_statement,
    parse_with_markers,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.generic_plans import (
    Assignments,
    ParameterTypes,
    assigned_parameters,
    parameter_types,
)
from kpg.compiler.sql.parse.parameters import Binder, placeholder_rows, slots_in, text_literal
from kpg.compiler.system.oids import type_facts
from kpg.execute.queries import cursors, side_effects
from kpg.execute.queries.explain import output_type
from kpg.execute.queries.query_plan import bind, returning_columns
from kpg.execute.queries.result_rows import EncodedContents
from kpg.execute.scripts import command_of, may_share_step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import CanceledError, InterfaceError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.styles import DEFAULT_STYLE, Style
from kpg.server import binary_format, binary_input, statement_cache
from kpg.server.binary_format import encode_rows, text_writer
from kpg.server.binary_input import user_types_by_oid
from kpg.server.statement_cache import Request, RequestTemplate, request_template
from kpg.server.subscribe import Subscribe
from kpg.session.engine import Engine
from kpg.session.settings import expand_execute

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
"""Two literals of each type."""
COMPARISON_OIDS: Final = {1015: 1009}
"""The OID of the array type as which VARCHAR arrays are compared."""
ROW_COUNT_PARAMETER: Final = re.compile(
    r"\b(?:limit|offset|first|next)\s+\$(\d+)\b(?!\s*[-+*/%:])", re.IGNORECASE
)
"""Matches a parameter of LIMIT, OFFSET or FETCH."""


def infer_parameter_oids(
    engine: Engine, text: str, statement: ast.Statement | None, declared: Sequence[int]
) -> list[int]:
    """Return the type OIDs of all parameters; text for those that no context determines."""
    if all(declared):
        return list(declared)
    known_type = engine.catalog.resolve_type
    cast_types, context_types = (
        parameter_types(statement, lambda type_: known_type(type_, None)) if statement else ({}, {})
    )
    if isinstance(statement, ast.Insert):
        inferred = _oids_in_insert(engine, statement, len(declared))
    else:
        inferred = _oids_in_plan(engine, text, len(declared), cast_types)
    if isinstance(statement, ast.Update):
        inferred |= _oids_in_assignments(engine, statement.table, statement.assignments)
    counts = {int(one[1]) - 1: BIGINT for one in ROW_COUNT_PARAMETER.finditer(text)}
    inferred = _oids_of_types(context_types) | inferred | counts | _oids_of_types(cast_types)
    return [number or inferred.get(place, TEXT) for place, number in enumerate(declared)]


def _oids_of_types(types: ParameterTypes) -> dict[int, int]:
    return {place: type_facts(type_)[2] for place, type_ in types.items()}


def _oids_in_insert(engine: Engine, statement: ast.Insert, count: int) -> dict[int, int]:
    """Return the OIDs of the columns that the parameters of an INSERT are assigned to, by parameter."""
    schema = engine.catalog.table(statement.table).schema
    lower_names = [name.lower() for name in schema.names]
    target_columns = statement.columns or schema.names
    places = [lower_names.index(name.lower()) for name in target_columns]
    oids: dict[int, int] = {}
    for row in placeholder_rows(statement.query.query):
        for column, parameter in zip(places, row, strict=False):
            if parameter is not None and parameter <= count:
                oids.setdefault(parameter - 1, type_facts(schema.types[column])[2])
    if statement.conflict is not None:
        oids |= _oids_in_assignments(engine, statement.table, statement.conflict.assignments)
    return oids


def _oids_in_assignments(engine: Engine, table: str, assignments: Assignments) -> dict[int, int]:
    """Return the OIDs of the columns that parameters are assigned to, by parameter."""
    schema = engine.catalog.table(table).schema
    types = {name.lower(): type_ for name, type_ in zip(schema.names, schema.types, strict=True)}
    return {
        place: type_facts(types[column])[2]
        for column, place in assigned_parameters(assignments)
        if column in types
    }


def _oids_in_plan(engine: Engine, text: str, count: int, cast_types: ParameterTypes) -> dict[int, int]:
    """Return OIDs inferred by binding the statement with placeholders for all parameters.

    If that fails, sample values replace the parameters that are cast to a type, and then each parameter
    in turn is a placeholder among NULLs.
    """
    oids = _oids_of_placeholders(engine, text, [""] * count)
    if oids is not None:
        return oids
    oids = {}
    for sample in (0, 1):  # true and false: one of them may fold its surroundings away
        samples = {
            place: text_literal(SAMPLES[type_.kind][sample], type_facts(type_)[0])
            for place, type_ in cast_types.items()
            if type_.kind in SAMPLES
        }
        if samples:
            oids |= _oids_of_placeholders(engine, text, [""] * count, samples) or {}
    for place in range(count):
        values: list[Any] = [None] * count
        values[place] = ""
        oids = (_oids_of_placeholders(engine, text, values) or {}) | oids
    return oids


def _oids_of_placeholders(
    engine: Engine, text: str, values: list[Any], samples: Mapping[int, Any] = MappingProxyType({})
) -> dict[int, int] | None:
    normalized = normalize_statement(text, values)
    if normalized is None:
        return None
    constants = (
        (name, samples.get(place, one)) for place, (name, one) in enumerate(normalized.parameter_constants)
    )
    try:
        return _oids_after_binding(engine, replace(normalized, parameter_constants=tuple(constants)))
    except CanceledError:
        raise
    except Exception:
        # A placeholder is not a value, so functions may raise any error.
        return None


def _oids_after_binding(engine: Engine, normalized: NormalizedStatement) -> dict[int, int]:
    constant_count = len(normalized.normalized_text.constants)
    statement = parse_with_markers(normalized, tuple(range(constant_count)))
    if not isinstance(statement, ast.Select | ast.Update | ast.Delete):
        return {}
    # Not planned: constant folding would evaluate the placeholders.
    bound = bind(statement, engine.reading_catalog).rel
    oids: dict[int, int] = {}
    for slot in slots_in(bound):
        if slot.steps:
            # The first conversion of the text is the type that Postgres infers.
            oid = type_facts(slot.steps[0][1])[2]
            oids.setdefault(slot.number - constant_count, COMPARISON_OIDS.get(oid, oid))
    return oids


Row = tuple[bytes | None, ...]


class Shape(NamedTuple):
    """Columns of a result: names, types, and the relation's column that each one comes from."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    origins: tuple[tuple[str, int], ...] = ()


LITERAL_OIDS: Final = binary_input.TEXT_OIDS | binary_input.REG_TYPES.keys() | {1014, 1561}
"""OIDs of types whose values are inserted as literals without a cast."""
VOID_OID: Final = 2278
"""The OID that drivers declare for a call's OUT parameters."""
CAST_NAME_OVERRIDES: Final = {1015: "TEXT[]", 1560: "BIT VARYING"}
"""Names of types without a length, for casts, by OID."""


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement with parameters; ``statement`` is None for an empty text."""

    text: str
    statement: ast.Statement | Subscribe | None
    parameter_oids: tuple[int, ...]
    described_shape: Shape | None = None
    """The columns described to the client, as of ``version`` of the catalog."""
    version: int = -1

    def bind(
        self,
        values: Sequence[bytes | None],
        formats: Sequence[int],
        user_types: Mapping[int, Type] = MappingProxyType({}),
    ) -> "ast.Statement | Subscribe | None":
        """Return the statement with values. DataError for a malformed value.

        ``user_types``: user-defined types by OID, if there are binary values of any.
        """
        if self.statement is None:
            return None
        forms = expand_formats(formats, len(values))
        literals = [
            text_literal(_parameter_text(value, form, oid, user_types), cast_type_name(oid))
            for value, form, oid in zip(values, forms, self.parameter_oids, strict=True)
        ]
        return Binder(literals).bind(self.statement)

    def declared(self, engine: Engine) -> tuple[str, ...]:
        """See ParsedStatement."""
        statement = None if isinstance(self.statement, Subscribe) else self.statement
        user_types = user_types_by_oid(engine.catalog)
        oids = infer_parameter_oids(engine, self.text, statement, self.parameter_oids)
        types = (binary_input.type_of_oid(number) or user_types.get(number) for number in oids)
        return tuple("unknown" if type_ is None else type_facts(type_)[0] for type_ in types)

    def text_and_values(
        self, values: Sequence[bytes | None], formats: Sequence[int]
    ) -> tuple[str, list[Any] | None] | None:
        """Return the text and Python values for the plan cache; None if it cannot be used."""
        if command_of(self.text) is None or len(values) != len(self.parameter_oids):
            return None
        decoded = statement_cache.decode_parameters(values, formats, self.parameter_oids)
        return None if decoded is None else (self.text, decoded or None)


def cast_type_name(oid: int) -> str | None:
    """Return the type that a parameter's value is cast to; None for no cast."""
    if oid in LITERAL_OIDS:
        return None
    type_ = binary_input.type_of_oid(oid)
    return CAST_NAME_OVERRIDES.get(oid) or (None if type_ is None else type_facts(type_)[0])


def expand_formats(formats: Sequence[int], count: int) -> list[int]:
    """Return a format for each value: none given means text, one given is for all."""
    if len(formats) == 1:
        return list(formats) * count
    if formats and len(formats) != count:
        raise InterfaceError(f"{len(formats)} formats are given for {count} values")
    return list(formats) or [0] * count


def _parameter_text(
    value: bytes | None, format_: int, oid: int, user_types: Mapping[int, Type]
) -> str | None:
    """Return the text of a parameter's value. OID 0 means unknown."""
    if value is None:
        return None
    return (
        binary_input.binary_to_text_by_oid(value, oid, user_types)
        if format_
        else binary_input.decode_text(value)
    )


def shape_of(engine: Engine, statement: ast.Statement | None) -> Shape | None:
    """Return the columns that a statement returns; None if it returns no rows or must run first."""
    catalog = engine.reading_catalog
    if isinstance(statement, ast.Select):
        if calls_settings(statement.query):  # set only by the query itself
            statement = replace(
                statement, query=substitute_settings(statement.query, lambda name, args: None)
            )
        if side_effects.has_side_effects(statement):
            statement = side_effects.without_side_effects(statement)
        bound = bind(statement, catalog)
        return Shape(bound.names[: bound.visible], bound.types[: bound.visible], bound.origins)
    if isinstance(statement, ast.Execute):
        return shape_of(engine, expand_execute(engine, statement))
    if isinstance(statement, ast.Fetch):
        cursor_shape = None if statement.moves else cursors.cursor_columns(engine, statement.name)
        return None if cursor_shape is None else Shape(*cursor_shape)
    if isinstance(statement, ast.Explain | ast.ExplainView):
        return Shape((PLAN_COLUMN,), (output_type(statement.options),))
    if not isinstance(statement, ast.Insert | ast.Delete | ast.Update) or not statement.returning:
        return None
    return Shape(*returning_columns(statement, catalog))


def must_run_to_describe(statement: ast.Statement | Subscribe | None) -> bool:
    """Return whether a statement has to run before its columns are known."""
    return isinstance(
        statement,
        ast.ExplainRow | ast.ShowTables | ast.Describe | ast.VerifyView | ast.Show,
    )


EMPTY_TEMPLATE: Final = RequestTemplate(b"", 0, b"", 0)


@dataclass(frozen=True, slots=True)
class CachedStatement:
    """A statement that may be requested again with other values."""

    text: str
    verb: str
    name: str
    """Name of the prepared statement. ``prepared`` is None for the text of a Query."""
    prepared: PreparedStatement | None
    decoders: Sequence[statement_cache.ParameterDecoder]
    request_template: RequestTemplate
    is_described: bool
    result_formats: tuple[int, ...]
    only_inserts: bool | Callable[[Engine], bool]
    value_formats: tuple[int, ...] = ()
    """Formats of the values, 1 for binary."""

    def is_binary(self, position: int) -> bool:
        """Return whether the value at a position is binary."""
        return bool(self.value_formats[position])

    @staticmethod
    def from_request(
        prepared: PreparedStatement | None, request: Request, text: str, verb: str, data: bytes
    ) -> "CachedStatement":
        """Return the cached statement for its first request."""
        decoders: Sequence[statement_cache.ParameterDecoder] = ()
        value_formats: Sequence[int] = ()
        template = EMPTY_TEMPLATE
        if prepared is not None:
            value_formats = expand_formats(request.formats, len(request.values))
            decoders = statement_cache.parameter_decoders(value_formats, prepared.parameter_oids) or ()
            template = request_template(data, request)
        name = request.name or ""
        is_described, results, only_inserts = (
            request.is_described,
            request.result_formats,
            may_share_step(text),
        )
        return CachedStatement(
            text,
            verb,
            name,
            prepared,
            decoders,
            template,
            is_described,
            results,
            only_inserts,
            tuple(value_formats),
        )


class Portal:
    """A statement with values. It runs once, when its rows or columns are first requested."""

    def __init__(
        self,
        statement: ast.Statement | Subscribe | None,
        formats: Sequence[int],
        text_and_values: tuple[str, list[Any] | None] | None = None,
    ) -> None:
        """Create a portal.

        ``text_and_values`` run by the plan cache instead of the statement.
        """
        self.statement = statement
        self.text_and_values = text_and_values
        self.formats = formats
        self.outcome: Result | None = None
        self.has_run = False
        self.position = 0
        self.tag = ""
        """The command tag, if the statement's words do not determine it."""
        self.is_completed = False
        """Whether CommandComplete has been sent."""
        self.text = ""
        self.statement_name = ""
        """Name of the prepared statement that it was bound from; empty for the unnamed one."""
        self.creation_time = 0
        """Microseconds since 1970."""

    def check_runnable(self, name: str, session: "Session | None") -> None:
        """Raise InterfaceError if the portal cannot run again."""
        if self.has_run and session is not None:
            session.transactions.check_not_failed()
        if self.is_completed and self.shape is None and self.statement is not None:
            error = InterfaceError(f'portal "{name}" cannot be run')
            error.sqlstate = "55000"
            raise error

    @property
    def shape(self) -> Shape | None:
        """The columns of the rows; None if it has not run or returns no rows."""
        return None if self.outcome is None else shape_of_result(self.outcome)

    def next_rows(self, limit: int, dictionary: Dictionary, style: Style = DEFAULT_STYLE) -> list[Row]:
        """Return the next rows as fields, at most ``limit``."""
        outcome = self.outcome
        if outcome is None or shape_of_result(outcome) is None:
            return []
        start = self.position
        formats = expand_formats(self.formats, len(outcome.types))
        rows = encode_result(outcome, start, start + limit, formats, dictionary, style)
        self.position += len(rows)
        return rows

    @property
    def is_exhausted(self) -> bool:
        """Whether all rows have been read."""
        return self.outcome is None or self.shape is None or self.position >= len(self.outcome)


def shape_of_result(outcome: Result | None) -> Shape | None:
    """Return the columns of a result; None for a count."""
    if outcome is None or outcome.is_count:
        return None
    return Shape(tuple(outcome.columns), tuple(outcome.types), outcome.origins)


def encode_result(
    outcome: Result,
    start: int,
    stop: int,
    formats: Sequence[int],
    dictionary: Dictionary,
    style: Style = DEFAULT_STYLE,
) -> list[Row]:
    """Return rows ``start`` to ``stop`` of a result as fields."""
    contents = outcome.contents
    if isinstance(contents, EncodedContents):
        return encode_rows(contents.words[:, start:stop], contents.types, formats, dictionary, style)
    writers = [
        (
            codec_of(type_).from_python,
            binary_format.binary_writer(type_) if form else text_writer(type_, style),
        )
        for type_, form in zip(outcome.types, formats, strict=True)
    ]
    return [
        tuple(
            None if value is None else write(encode(value))
            for value, (encode, write) in zip(row, writers, strict=True)
        )
        for row in contents.part(start, stop)
    ]
