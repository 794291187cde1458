"""CREATE, DROP and ALTER of functions and aggregates. Functions in languages other than SQL are refused."""

from dataclasses import field, replace
from typing import Final

from kpg.compiler.catalog.routines import Parameter
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.reader import TEXTS, Reader, setting_value
from kpg.runtime.errors import Error
from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported_features import unsupported_syntax

DECLARED: Final = {
    **dict.fromkeys(("IMMUTABLE", "STABLE", "VOLATILE"), "volatility"),
    **dict.fromkeys(("NOT LEAKPROOF", "LEAKPROOF"), "leaks"),
    **dict.fromkeys(("PARALLEL SAFE", "PARALLEL UNSAFE", "PARALLEL RESTRICTED"), "parallel"),
    "WINDOW": "window",
}
"""What a function may be declared to be, and changes no answer: it is kept for the catalogs."""
SECURITY: Final = {
    "SECURITY DEFINER": True,
    "EXTERNAL SECURITY DEFINER": True,
    "SECURITY INVOKER": False,
    "EXTERNAL SECURITY INVOKER": False,
}
CURRENT: Final = "FROM CURRENT"
"""What a setting is that stays as it is now."""
MODES: Final = ("IN OUT", "INOUT", "IN", "OUT", "VARIADIC")


class _Parts:
    """What has been read of a definition."""

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.outs: list[tuple[str, Type]] = []
        self.result: Type | None = None
        self.rows = False
        self.language = ""
        self.body = ""
        self.parsed = False
        self.strict = False
        self.declared: dict[str, str] = {}
        self.definer: bool | None = None
        """Whether it has its owner's rights."""


def create_function(reader: Reader, *, or_replace: bool) -> ast.CreateFunction:
    """What follows CREATE FUNCTION."""
    name = reader.relation()
    parts = _Parts()
    _parameters(reader, parts)
    if reader.take("RETURNS", "TABLE"):
        parts.rows = True
        reader.need("(")
        while True:
            parts.outs.append((reader.name(), type_name(reader)))
            if not reader.take(","):
                break
        reader.need(")")
    elif reader.take("RETURNS"):
        if reader.at("TRIGGER"):
            raise unsupported_syntax("TRIGGER", reader.here(), verb="RETURNS")
        parts.rows = reader.take("SETOF")
        parts.result = type_name(reader)
    while not reader.done:
        _option(reader, parts)
    if parts.language not in ("", "sql"):
        reader.skip(-1)
        hint = "write it in SQL, or in Python: db.create_function"
        reader.refuse(f"a function in {parts.language}", hint)
    if not parts.body:
        reader.unexpected("AS and the body of the function")
    return _built(reader, name, parts, or_replace=or_replace)


def _built(reader: Reader, name: str, parts: _Parts, *, or_replace: bool) -> ast.CreateFunction:
    result, columns = _result(reader, name, parts)
    return ast.CreateFunction(
        name,
        tuple(parts.parameters),
        result,
        columns,
        parts.rows,
        parts.body,
        parts.strict,
        or_replace,
        reader.span,
        tuple(parts.outs),
        bool(parts.definer),
        tuple(sorted(parts.declared.items())),
        parts.parsed,
    )


def _result(reader: Reader, name: str, parts: _Parts) -> tuple[Type, tuple[str, ...]]:
    """The type of what a function gives, and the names of its columns if it has some."""
    result, columns = parts.result, tuple(one for one, _ in parts.outs)
    if len(parts.outs) == 1 and result in (None, parts.outs[0][1]) and not parts.rows:
        result, columns = parts.outs[0][1], ()
    elif len(parts.outs) == 1:
        result = parts.outs[0][1]
    elif parts.outs:
        types = tuple(type_ for _, type_ in parts.outs)
        result = Type(Kind.RECORD, parts=types, labels=columns)
    if result is None:
        reader.skip(-1)
        reader.wrong(f"function {name} needs RETURNS and a type")
    return result, columns


def _parameters(reader: Reader, parts: _Parts) -> None:
    reader.need("(")
    while not reader.take(")"):
        mode = _mode(reader)
        name = "" if _is_type(reader) else reader.name()
        mode = mode or _mode(reader) or "IN"
        type_ = type_name(reader)
        default = reader.value() if reader.take("DEFAULT") or reader.take("=") or reader.take(":=") else ""
        if mode != "OUT":
            parts.parameters.append(Parameter(name, type_, default, mode == "VARIADIC"))
        if mode in ("OUT", "INOUT", "IN OUT"):
            parts.outs.append((name or f"column{len(parts.outs) + 1}", type_))
        if not reader.take(","):
            reader.need(")")
            break


def _mode(reader: Reader) -> str:
    return next(
        (one for one in ("IN OUT", "INOUT", "IN", "OUT", "VARIADIC") if reader.take(*one.split())), ""
    )


def _is_type(reader: Reader) -> bool:
    """Whether the parameter that comes next has no name: a type and nothing but its end follows."""
    start = reader.place
    try:
        type_name(reader)
        ends = any(reader.at(word) for word in (",", ")", "DEFAULT", "=", ":="))
    except Error:
        ends = False
    reader.skip(start - reader.place)
    return ends


def type_name(reader: Reader) -> Type:
    """A type; what only functions have, or the rows of a relation, is an ENUM without labels."""
    for word in ("RECORD", "VOID"):
        if reader.take(word):
            return Type(Kind.ENUM, name=word.lower())
    start = reader.place
    if (named := _of_column(reader)) is not None:
        return named
    reader.skip(start - reader.place)
    return reader.type()


def _of_column(reader: Reader) -> Type | None:
    """``relation.column%TYPE``, as a type of that name."""
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


def _option(reader: Reader, parts: _Parts) -> None:
    if reader.take("LANGUAGE"):
        parts.language = reader.tokens[reader.place].text.lower() if not reader.done else ""
        reader.skip(1)
    elif reader.take("AS"):
        parts.body = text_of(reader)
    elif reader.take("RETURN"):
        parts.body, parts.parsed = f"SELECT {reader.condition()}", True
    elif reader.take("BEGIN", "ATOMIC"):
        parts.body, parts.parsed = _atomic(reader), True
    elif reader.take("STRICT") or reader.take("RETURNS", "NULL", "ON", "NULL", "INPUT"):
        parts.strict = True
    elif reader.take("CALLED", "ON", "NULL", "INPUT"):
        parts.strict = False
    elif reader.at("COST") or reader.at("ROWS"):
        word, number = (one.text for one in reader.rest()[:2])
        parts.declared[word.lower()] = f"{word.upper()} {number}"
        reader.skip(2)
    elif reader.take("SUPPORT"):
        reader.skip(1)
    elif reader.take("SET"):
        _setting(reader, parts)
    elif security := next((words for words in SECURITY if reader.take(*words.split())), ""):
        parts.definer = SECURITY[security]
    elif words := next((words for words in DECLARED if reader.take(*words.split())), ""):
        parts.declared[DECLARED[words]] = words
    else:
        reader.unexpected("LANGUAGE, AS or RETURN")


def _setting(reader: Reader, parts: _Parts) -> None:
    """A setting that holds within the function: of these only the search path says what bodies mean here."""
    name = reader.name().lower()
    while reader.take("."):
        reader.name()
    values = []
    if reader.take("FROM", "CURRENT"):
        values = [CURRENT]
    else:
        if not reader.take("TO"):
            reader.need("=")
        while not values or reader.take(","):
            values.append(setting_value(reader))
    if name == "search_path":
        parts.declared[name] = ", ".join(values)


def text_of(reader: Reader) -> str:
    """A body in quotes."""
    if reader.done or reader.tokens[reader.place].token_type not in TEXTS:
        reader.unexpected("the body in quotes")
    text = reader.string()
    if reader.take(","):
        reader.refuse("a function in C")
    return text


def _atomic(reader: Reader) -> str:
    """The text between BEGIN ATOMIC and the last END."""
    start = reader.tokens[reader.place]
    places = [i for i in range(reader.place, len(reader.tokens)) if reader.tokens[i].text.upper() == "END"]
    if not places:
        reader.unexpected("END")
    text = reader.text[start.start : reader.tokens[places[-1]].start]
    reader.skip(places[-1] + 1 - reader.place)
    return text


def signatures(reader: Reader) -> tuple[tuple[str, tuple[Type, ...] | None], ...]:
    """Names of functions with the types of their arguments, None where these are left out."""
    found = []
    while True:
        name = reader.relation()
        types: tuple[Type, ...] | None = None
        if reader.at("("):
            parts = _Parts()
            _parameters(reader, parts)
            types = tuple(one.type for one in parts.parameters)
        found.append((name, types))
        if not reader.take(","):
            return tuple(found)


def drop_function(reader: Reader, kind: str) -> ast.DropFunction:
    """What follows DROP FUNCTION or ROUTINE, which ``kind`` says in lower case."""
    exists = reader.take("IF", "EXISTS")
    names = signatures(reader)
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    reader.end()
    return ast.DropFunction(names, exists, cascade, reader.span, kind)


def alter_function(reader: Reader) -> ast.AlterFunction:
    """What follows ALTER FUNCTION."""
    ((name, types),) = signatures(reader)
    found = ast.AlterFunction(name, types, "", None, reader.span)
    if reader.take("RENAME", "TO"):
        found = replace(found, rename=reader.name())
    elif reader.take("OWNER", "TO") or reader.take("DEPENDS", "ON"):
        reader.skip(len(reader.rest()))
    else:
        parts = _Parts()
        while not reader.done:
            strict = reader.at("STRICT") or reader.at("RETURNS") or reader.at("CALLED")
            if not reader.take("RESTRICT"):
                _option(reader, parts)
            declared = tuple(sorted(parts.declared.items()))
            found = replace(
                found,
                strict=parts.strict if strict else found.strict,
                definer=parts.definer,
                declared=declared,
            )
    reader.end()
    return found


SKIPPED: Final = frozenset(
    (
        *("SSPACE", "FINALFUNC_MODIFY", "FINALFUNC_EXTRA", "COMBINEFUNC", "SERIALFUNC", "DESERIALFUNC"),
        *("MSFUNC", "MINVFUNC", "MSTYPE", "MSSPACE", "MFINALFUNC", "MFINALFUNC_EXTRA", "MFINALFUNC_MODIFY"),
        *("MINITCOND", "SORTOP", "PARALLEL"),
    )
)
"""What says how fast an aggregate may be computed, and changes no answer."""


@dataclass(slots=True)
class _Found:
    """What has been read: the types of the arguments and of the state, and names and texts by their words."""

    types: tuple[Type, ...] | None
    state: Type | None = None
    texts: dict[str, str] = field(default_factory=dict)


def create_aggregate(reader: Reader, *, or_replace: bool) -> ast.CreateAggregate:
    """What follows CREATE AGGREGATE."""
    name = reader.relation()
    types: tuple[Type, ...] | None = None
    reader.need("(")
    if not _is_option(reader):
        types = _arguments(reader)
        reader.need("(")
    found = _Found(types)
    _attributes(reader, found)
    reader.end()
    if "SFUNC" not in found.texts:
        reader.wrong("aggregate sfunc must be specified")
    if found.state is None:
        reader.wrong("aggregate stype must be specified")
    if found.types is None:
        reader.wrong("aggregate input type must be specified")
    step, init, final = (found.texts.get(one) for one in ("SFUNC", "INITCOND", "FINALFUNC"))
    return ast.CreateAggregate(
        name, found.types, step or "", found.state, init, final or "", or_replace, reader.span
    )


def _attributes(reader: Reader, found: _Found) -> None:
    """What stands between the parentheses."""
    while True:
        word = reader.name().upper()
        if not reader.take("="):
            if word not in ("FINALFUNC_EXTRA", "MFINALFUNC_EXTRA", "HYPOTHETICAL"):
                reader.unexpected("=")
            if word == "HYPOTHETICAL":
                reader.refuse("a hypothetical-set aggregate of the user's")
        elif word in ("STYPE", "STYPE1"):
            found.state = type_name(reader)
        elif word == "BASETYPE":
            found.types = _base(reader)
        elif word in ("SFUNC", "SFUNC1", "FINALFUNC"):
            found.texts[word.removesuffix("1")] = reader.relation()
        elif word in ("INITCOND", "INITCOND1"):
            found.texts["INITCOND"] = _text(reader)
        elif word in SKIPPED:
            while not reader.at(",") and not reader.at(")"):
                reader.skip(1)
        else:
            reader.skip(-2)
            reader.wrong(f'aggregate attribute "{word.lower()}" not recognized')
        if not reader.take(","):
            break
    reader.need(")")


def _is_option(reader: Reader) -> bool:
    start = reader.place
    if reader.at("*") or reader.at(")"):
        return False
    reader.skip(1)
    found = reader.at("=")
    reader.skip(start - reader.place)
    return found


def _arguments(reader: Reader) -> tuple[Type, ...]:
    """The types of the arguments, behind the parenthesis that opens."""
    if reader.take("*"):
        reader.need(")")
        return ()
    found: list[Type] = []
    while not reader.take(")"):
        if reader.at("ORDER"):
            reader.refuse("an ordered-set aggregate of the user's")
        if reader.take("VARIADIC"):
            reader.skip(-1)
            reader.refuse("a VARIADIC aggregate of the user's")
        reader.take("IN")
        found.append(_type(reader))
        if not reader.at(")") and not reader.at("ORDER"):
            reader.need(",")
    return tuple(found)


def _type(reader: Reader) -> Type:
    """A type, perhaps with the argument's name before it."""
    start = reader.place
    if len(reader.rest()) > 1:
        reader.name()
        if not any(reader.at(word) for word in (",", ")", "(", "[", "ORDER", "PRECISION", "VARYING")):
            try:
                return type_name(reader)
            except Error:  # two words of one type
                pass
        reader.skip(start - reader.place)
    return type_name(reader)


def _base(reader: Reader) -> tuple[Type, ...]:
    here = reader.here()
    if reader.text[here.start : here.end].strip("'\"").lower() == "any":
        reader.skip(1)
        return ()
    return (type_name(reader),)


def _text(reader: Reader) -> str:
    here = reader.here()
    text = reader.text[here.start : here.end]
    if text.startswith(("'", "E'", "e'")):
        return reader.string()
    return str(reader.number())


def drop_aggregate(reader: Reader) -> ast.DropAggregate:
    """What follows DROP AGGREGATE."""
    exists = reader.take("IF", "EXISTS")
    names = []
    while True:
        name = reader.relation()
        reader.need("(")
        names.append((name, _arguments(reader)))
        if not reader.take(","):
            break
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    reader.end()
    return ast.DropAggregate(tuple(names), exists, cascade, reader.span)
