"""The options of CREATE and ALTER SEQUENCE and of identity columns."""

from dataclasses import replace
from typing import Any, Final

from kpg.compiler.constraints import Sequence
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.definitions import AlterSequence, CreateSequence, Options
from kpg.runtime.errors import ProgrammingError, Span

MOST: Final = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
TYPES: Final = {"int2": "smallint", "int": "integer", "int4": "integer", "int8": "bigint"}
NUMBERS: Final = {
    "INCREMENT BY": "increment",
    "INCREMENT": "increment",
    "START WITH": "start",
    "START": "start",
    "RESTART WITH": "restart",
    "MINVALUE": "least",
    "MAXVALUE": "most",
    "CACHE": "cache",
}
FLAGS: Final = {
    "NO MINVALUE": ("least", None),
    "NO MAXVALUE": ("most", None),
    "NO CYCLE": ("cycle", False),
    "CYCLE": ("cycle", True),
}


def options(reader: Reader) -> Options:
    """Options of a sequence, up to something else."""
    found: list[tuple[str, Any]] = []
    while not reader.done and (one := _option(reader)) is not None:
        found.append(one)
    return tuple(found)


def _option(reader: Reader) -> tuple[str, Any] | None:
    for words, (name, value) in FLAGS.items():
        if reader.take(*words.split()):
            return name, value
    for words, name in NUMBERS.items():
        if reader.take(*words.split()):
            return name, reader.number()
    if reader.take("RESTART"):
        at_number = not reader.done and reader.tokens[reader.place].text.lstrip("-").isdigit()
        return "restart", reader.number() if at_number or reader.at("-") else None
    if reader.take("AS"):
        word = reader.name().lower()
        if TYPES.get(word, word) not in MOST:
            reader.wrong("a sequence is of type smallint, integer or bigint")
        return "type", TYPES.get(word, word)
    if reader.take("SEQUENCE", "NAME"):
        return "name", reader.relation().removeprefix("public.")
    if reader.take("OWNED", "BY"):
        return "owner", _owner(reader)
    if reader.take("SET"):
        return _option(reader)
    return None


def _owner(reader: Reader) -> tuple[str, str] | None:
    parts = [reader.name()]
    while reader.take("."):
        parts.append(reader.name())
    if len(parts) == 1 and parts[0].lower() != "none":
        reader.wrong("OWNED BY takes table.column, or NONE")
    return None if len(parts) == 1 else (".".join(parts[:-1]), parts[-1])


def settled(old: Sequence, given: Options, span: Span | None, *, new: bool) -> Sequence:
    """A sequence with options, and with the bounds that go with its type and direction."""
    options = dict(given)

    def wrong(message: str) -> ProgrammingError:
        return ProgrammingError(message, span=span)

    kind: Any = options.get("type", old.type)
    increment: Any = options.get("increment", old.increment)
    cache: Any = options.get("cache", 1)
    if cache < 1:
        raise wrong(f"CACHE ({cache}) must be greater than zero")
    if not increment:
        raise wrong("INCREMENT must not be zero")
    most = MOST[kind]
    bounds = (1, most) if increment > 0 else (-most - 1, -1)
    low: Any = options.get("least", None if new else old.least)
    high: Any = options.get("most", None if new or kind != old.type else old.most)
    low = bounds[0] if low is None else low
    high = bounds[1] if high is None else high
    if low >= high:
        raise wrong(f"MINVALUE {low} must be less than MAXVALUE {high}")
    start: Any = options.get("start", (low if increment > 0 else high) if new else old.start)
    if not low <= start <= high:
        raise wrong(f"START value {start} is not between MINVALUE {low} and MAXVALUE {high}")
    name: Any = options.get("name", old.name)
    cycle, owner = bool(options.get("cycle", old.cycle)), options.get("owner", old.owner)
    return Sequence(name, start, increment, low, high, cycle, kind, owner)  # type: ignore[arg-type]


def created(name: str, given: Options, type_: str, span: Span | None) -> Sequence:
    """A new sequence."""
    fresh = Sequence(name, most=MOST[type_], type=type_)
    return replace(settled(fresh, given, span, new=True), name=dict(given).get("name", name))  # type: ignore[arg-type]


def create_sequence(reader: Reader, *, temporary: bool) -> CreateSequence:
    """What follows CREATE SEQUENCE."""
    exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.relation()
    found = CreateSequence(name, options(reader), exists, temporary, reader.span)
    reader.end()
    created(name, found.options, "bigint", reader.span)
    return found


def alter_sequence(reader: Reader) -> AlterSequence:
    """What follows ALTER SEQUENCE."""
    exists = reader.take("IF", "EXISTS")
    name = reader.relation()
    rename = ""
    given: Options = ()
    if reader.take("RENAME", "TO"):
        rename = reader.name()
    elif reader.take("OWNER", "TO"):
        reader.name()
    else:
        given = options(reader)
    reader.end()
    return AlterSequence(name, given, exists, rename, reader.span)
