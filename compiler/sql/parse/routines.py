"""CREATE, DROP and ALTER of functions and aggregates. Functions in languages other than SQL are refused."""

from dataclasses import field, replace
from typing import Final

from kpg.compiler.catalog.routines import Parameter
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.reader import STRING_TOKENS, Reader, parse_setting_value
from kpg.runtime.errors import Error
from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported_features import unsupported_syntax_error

ATTRIBUTES: Final = {
    **dict.fromkeys(("IMMUTABLE", "STABLE", "VOLATILE"), "volatility"),
    **dict.fromkeys(("NOT LEAKPROOF", "LEAKPROOF"), "leaks"),
    **dict.fromkeys(("PARALLEL SAFE", "PARALLEL UNSAFE", "PARALLEL RESTRICTED"), "parallel"),
    "WINDOW": "window",
}
"""Attributes of functions that change no result; they are kept for the system catalogs."""
SECURITY: Final = {
    "SECURITY DEFINER": True,
    "EXTERNAL SECURITY DEFINER": True,
    "SECURITY INVOKER": False,
    "EXTERNAL SECURITY INVOKER": False,
}
"""Clauses of the security attribute, and whether they mean SECURITY DEFINER."""
FROM_CURRENT: Final = "FROM CURRENT"
"""Value of a setting that keeps its current value."""
PARAMETER_MODES: Final = ("IN OUT", "INOUT", "IN", "OUT", "VARIADIC")


class _FunctionDefinition:
    """Parts of a function's definition that have been parsed."""

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.out_parameters: list[tuple[str, Type]] = []
        self.result: Type | None = None
        self.returns_set = False
        self.language = ""
        self.body = ""
        self.is_sql_body = False
        self.strict = False
        self.attributes: dict[str, str] = {}
        self.security_definer: bool | None = None
        """Whether it runs with its owner's privileges; None if it is unspecified."""


def parse_create_function(reader: Reader, *, or_replace: bool) -> ast.CreateFunction:
    """Parse the rest of CREATE FUNCTION."""
    name = reader.relation()
    parts = _FunctionDefinition()
    _parse_parameters(reader, parts)
    if reader.accept("RETURNS", "TABLE"):
        parts.returns_set = True
        reader.expect("(")
        while True:
            parts.out_parameters.append((reader.name(), parse_type_name(reader)))
            if not reader.accept(","):
                break
        reader.expect(")")
    elif reader.accept("RETURNS"):
        if reader.at("TRIGGER"):
            raise unsupported_syntax_error("TRIGGER", reader.here(), verb="RETURNS")
        parts.returns_set = reader.accept("SETOF")
        parts.result = parse_type_name(reader)
    while not reader.at_end:
        _parse_option(reader, parts)
    if parts.language not in ("", "sql"):
        reader.skip(-1)
        hint = "write it in SQL, or in Python: db.create_function"
        reader.refuse(f"a function in {parts.language}", hint)
    if not parts.body:
        reader.fail_unexpected("AS and the body of the function")
    return _make_statement(reader, name, parts, or_replace=or_replace)


def _make_statement(
    reader: Reader, name: str, parts: _FunctionDefinition, *, or_replace: bool
) -> ast.CreateFunction:
    result, columns = _result_type(reader, name, parts)
    return ast.CreateFunction(
        name,
        tuple(parts.parameters),
        result,
        columns,
        parts.returns_set,
        parts.body,
        parts.strict,
        or_replace,
        reader.span,
        tuple(parts.out_parameters),
        bool(parts.security_definer),
        tuple(sorted(parts.attributes.items())),
        parts.is_sql_body,
    )


def _result_type(reader: Reader, name: str, parts: _FunctionDefinition) -> tuple[Type, tuple[str, ...]]:
    """Return the result type of a function, and the names of its columns if it has several."""
    result, columns = parts.result, tuple(column_name for column_name, _ in parts.out_parameters)
    if (
        len(parts.out_parameters) == 1
        and result in (None, parts.out_parameters[0][1])
        and not parts.returns_set
    ):
        result, columns = parts.out_parameters[0][1], ()
    elif len(parts.out_parameters) == 1:
        result = parts.out_parameters[0][1]
    elif parts.out_parameters:
        types = tuple(type_ for _, type_ in parts.out_parameters)
        result = Type(Kind.RECORD, parts=types, labels=columns)
    if result is None:
        reader.skip(-1)
        reader.fail(f"function {name} needs RETURNS and a type")
    return result, columns


def _parse_parameters(reader: Reader, parts: _FunctionDefinition) -> None:
    reader.expect("(")
    while not reader.accept(")"):
        mode = _parse_mode(reader)
        name = "" if _is_unnamed_parameter(reader) else reader.name()
        mode = mode or _parse_mode(reader) or "IN"
        type_ = parse_type_name(reader)
        default = (
            reader.value() if reader.accept("DEFAULT") or reader.accept("=") or reader.accept(":=") else ""
        )
        if mode != "OUT":
            parts.parameters.append(Parameter(name, type_, default, mode == "VARIADIC"))
        if mode in ("OUT", "INOUT", "IN OUT"):
            parts.out_parameters.append((name or f"column{len(parts.out_parameters) + 1}", type_))
        if not reader.accept(","):
            reader.expect(")")
            break


def _parse_mode(reader: Reader) -> str:
    return next(
        (mode for mode in ("IN OUT", "INOUT", "IN", "OUT", "VARIADIC") if reader.accept(*mode.split())), ""
    )


def _is_unnamed_parameter(reader: Reader) -> bool:
    """Return whether the next parameter has no name: a type and the parameter's end come next."""
    start = reader.position
    try:
        parse_type_name(reader)
        ends = any(reader.at(word) for word in (",", ")", "DEFAULT", "=", ":="))
    except Error:
        ends = False
    reader.skip(start - reader.position)
    return ends


def parse_type_name(reader: Reader) -> Type:
    """Parse a type.

    RECORD, VOID and ``relation.column%TYPE`` are ENUMs without labels, which the catalog resolves.
    """
    for word in ("RECORD", "VOID"):
        if reader.accept(word):
            return Type(Kind.ENUM, name=word.lower())
    start = reader.position
    if (column_type := _parse_column_type(reader)) is not None:
        return column_type
    reader.skip(start - reader.position)
    return reader.type()


def _parse_column_type(reader: Reader) -> Type | None:
    """Parse ``relation.column%TYPE``; None for any other type."""
    words = reader.rest()
    place = 1
    while place + 1 < len(words) and words[place].text == ".":
        place += 2
    if place >= len(words) or words[place].text != "%":
        return None
    if not place or len(words) < place + 2 or words[place + 1].text.upper() != "TYPE":
        return None
    text = reader.text[words[0].start : words[place - 1].end + 1]
    reader.skip(place + 2)
    return Type(Kind.ENUM, name=f"{text}%type")


def _parse_option(reader: Reader, parts: _FunctionDefinition) -> None:
    if reader.accept("LANGUAGE"):
        parts.language = reader.tokens[reader.position].text.lower() if not reader.at_end else ""
        reader.skip(1)
    elif reader.accept("AS"):
        parts.body = parse_body_text(reader)
    elif reader.accept("RETURN"):
        parts.body, parts.is_sql_body = f"SELECT {reader.condition()}", True
    elif reader.accept("BEGIN", "ATOMIC"):
        parts.body, parts.is_sql_body = _parse_atomic_body(reader), True
    elif reader.accept("STRICT") or reader.accept("RETURNS", "NULL", "ON", "NULL", "INPUT"):
        parts.strict = True
    elif reader.accept("CALLED", "ON", "NULL", "INPUT"):
        parts.strict = False
    elif reader.at("COST") or reader.at("ROWS"):
        word, number = (one.text for one in reader.rest()[:2])
        parts.attributes[word.lower()] = f"{word.upper()} {number}"
        reader.skip(2)
    elif reader.accept("SUPPORT"):
        reader.skip(1)
    elif reader.accept("SET"):
        _parse_setting(reader, parts)
    elif security := next((words for words in SECURITY if reader.accept(*words.split())), ""):
        parts.security_definer = SECURITY[security]
    elif words := next((words for words in ATTRIBUTES if reader.accept(*words.split())), ""):
        parts.attributes[ATTRIBUTES[words]] = words
    else:
        reader.fail_unexpected("LANGUAGE, AS or RETURN")


def _parse_setting(reader: Reader, parts: _FunctionDefinition) -> None:
    """Parse SET in a function; only ``search_path`` affects what its body means."""
    name = reader.name().lower()
    while reader.accept("."):
        reader.name()
    values = []
    if reader.accept("FROM", "CURRENT"):
        values = [FROM_CURRENT]
    else:
        if not reader.accept("TO"):
            reader.expect("=")
        while not values or reader.accept(","):
            values.append(parse_setting_value(reader))
    if name == "search_path":
        parts.attributes[name] = ", ".join(values)


def parse_body_text(reader: Reader) -> str:
    """Parse a body in quotes."""
    if reader.at_end or reader.tokens[reader.position].token_type not in STRING_TOKENS:
        reader.fail_unexpected("the body in quotes")
    text = reader.string()
    if reader.accept(","):
        reader.refuse("a function in C")
    return text


def _parse_atomic_body(reader: Reader) -> str:
    """Return the text between BEGIN ATOMIC and the last END."""
    start = reader.tokens[reader.position]
    places = [i for i in range(reader.position, len(reader.tokens)) if reader.tokens[i].text.upper() == "END"]
    if not places:
        reader.fail_unexpected("END")
    text = reader.text[start.start : reader.tokens[places[-1]].start]
    reader.skip(places[-1] + 1 - reader.position)
    return text


def parse_signatures(reader: Reader) -> tuple[tuple[str, tuple[Type, ...] | None], ...]:
    """Parse names of functions with their argument types, None where these are left out."""
    found = []
    while True:
        name = reader.relation()
        types: tuple[Type, ...] | None = None
        if reader.at("("):
            parts = _FunctionDefinition()
            _parse_parameters(reader, parts)
            types = tuple(parameter.type for parameter in parts.parameters)
        found.append((name, types))
        if not reader.accept(","):
            return tuple(found)


def parse_drop_function(reader: Reader, kind: str) -> ast.DropFunction:
    """Parse the rest of DROP FUNCTION or ROUTINE; ``kind`` is the keyword in lower case."""
    exists = reader.accept("IF", "EXISTS")
    names = parse_signatures(reader)
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end()
    return ast.DropFunction(names, exists, cascade, reader.span, kind)


def parse_alter_function(reader: Reader) -> ast.AlterFunction:
    """Parse the rest of ALTER FUNCTION."""
    ((name, types),) = parse_signatures(reader)
    statement = ast.AlterFunction(name, types, "", None, reader.span)
    if reader.accept("RENAME", "TO"):
        statement = replace(statement, rename=reader.name())
    elif reader.accept("OWNER", "TO") or reader.accept("DEPENDS", "ON"):
        reader.skip(len(reader.rest()))
    else:
        parts = _FunctionDefinition()
        while not reader.at_end:
            strict = reader.at("STRICT") or reader.at("RETURNS") or reader.at("CALLED")
            if not reader.accept("RESTRICT"):
                _parse_option(reader, parts)
            attributes = tuple(sorted(parts.attributes.items()))
            statement = replace(
                statement,
                strict=parts.strict if strict else statement.strict,
                security_definer=parts.security_definer,
                attributes=attributes,
            )
    reader.expect_end()
    return statement


IGNORED_OPTIONS: Final = frozenset(
    (
        *("SSPACE", "FINALFUNC_MODIFY", "FINALFUNC_EXTRA", "COMBINEFUNC", "SERIALFUNC", "DESERIALFUNC"),
        *("MSFUNC", "MINVFUNC", "MSTYPE", "MSSPACE", "MFINALFUNC", "MFINALFUNC_EXTRA", "MFINALFUNC_MODIFY"),
        *("MINITCOND", "SORTOP", "PARALLEL"),
    )
)
"""Options of aggregates that change no result."""


@dataclass(slots=True)
class _AggregateDefinition:
    """Parts of an aggregate's definition that have been parsed; ``texts`` by keyword."""

    types: tuple[Type, ...] | None
    state: Type | None = None
    texts: dict[str, str] = field(default_factory=dict)


def parse_create_aggregate(reader: Reader, *, or_replace: bool) -> ast.CreateAggregate:
    """Parse the rest of CREATE AGGREGATE."""
    name = reader.relation()
    types: tuple[Type, ...] | None = None
    reader.expect("(")
    if not _is_option_next(reader):
        types = _parse_argument_types(reader)
        reader.expect("(")
    definition = _AggregateDefinition(types)
    _parse_aggregate_options(reader, definition)
    reader.expect_end()
    if "SFUNC" not in definition.texts:
        reader.fail("aggregate sfunc must be specified")
    if definition.state is None:
        reader.fail("aggregate stype must be specified")
    if definition.types is None:
        reader.fail("aggregate input type must be specified")
    step, init, final = (definition.texts.get(one) for one in ("SFUNC", "INITCOND", "FINALFUNC"))
    return ast.CreateAggregate(
        name, definition.types, step or "", definition.state, init, final or "", or_replace, reader.span
    )


def _parse_aggregate_options(reader: Reader, definition: _AggregateDefinition) -> None:
    """Parse the options up to the closing parenthesis."""
    while True:
        word = reader.name().upper()
        if not reader.accept("="):
            if word not in ("FINALFUNC_EXTRA", "MFINALFUNC_EXTRA", "HYPOTHETICAL"):
                reader.fail_unexpected("=")
            if word == "HYPOTHETICAL":
                reader.refuse("a user-defined hypothetical-set aggregate")
        elif word in ("STYPE", "STYPE1"):
            definition.state = parse_type_name(reader)
        elif word == "BASETYPE":
            definition.types = _parse_base_type(reader)
        elif word in ("SFUNC", "SFUNC1", "FINALFUNC"):
            definition.texts[word.removesuffix("1")] = reader.relation()
        elif word in ("INITCOND", "INITCOND1"):
            definition.texts["INITCOND"] = _parse_initial_value(reader)
        elif word in IGNORED_OPTIONS:
            while not reader.at(",") and not reader.at(")"):
                reader.skip(1)
        else:
            reader.skip(-2)
            reader.fail(f'aggregate attribute "{word.lower()}" not recognized')
        if not reader.accept(","):
            break
    reader.expect(")")


def _is_option_next(reader: Reader) -> bool:
    start = reader.position
    if reader.at("*") or reader.at(")"):
        return False
    reader.skip(1)
    found = reader.at("=")
    reader.skip(start - reader.position)
    return found


def _parse_argument_types(reader: Reader) -> tuple[Type, ...]:
    """Parse argument types, after the opening parenthesis."""
    if reader.accept("*"):
        reader.expect(")")
        return ()
    found: list[Type] = []
    while not reader.accept(")"):
        if reader.at("ORDER"):
            reader.refuse("a user-defined ordered-set aggregate")
        if reader.accept("VARIADIC"):
            reader.skip(-1)
            reader.refuse("a user-defined VARIADIC aggregate")
        reader.accept("IN")
        found.append(_parse_argument_type(reader))
        if not reader.at(")") and not reader.at("ORDER"):
            reader.expect(",")
    return tuple(found)


def _parse_argument_type(reader: Reader) -> Type:
    """Parse a type with an optional argument name before it."""
    start = reader.position
    if len(reader.rest()) > 1:
        reader.name()
        if not any(reader.at(word) for word in (",", ")", "(", "[", "ORDER", "PRECISION", "VARYING")):
            try:
                return parse_type_name(reader)
            except Error:  # a type of two words
                pass
        reader.skip(start - reader.position)
    return parse_type_name(reader)


def _parse_base_type(reader: Reader) -> tuple[Type, ...]:
    span = reader.here()
    if reader.text[span.start : span.end].strip("'\"").lower() == "any":
        reader.skip(1)
        return ()
    return (parse_type_name(reader),)


def _parse_initial_value(reader: Reader) -> str:
    span = reader.here()
    text = reader.text[span.start : span.end]
    if text.startswith(("'", "E'", "e'")):
        return reader.string()
    return str(reader.number())


def parse_drop_aggregate(reader: Reader) -> ast.DropAggregate:
    """Parse the rest of DROP AGGREGATE."""
    exists = reader.accept("IF", "EXISTS")
    names = []
    while True:
        name = reader.relation()
        reader.expect("(")
        names.append((name, _parse_argument_types(reader)))
        if not reader.accept(","):
            break
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end()
    return ast.DropAggregate(tuple(names), exists, cascade, reader.span)
