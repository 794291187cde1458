"""CREATE and DROP AGGREGATE."""

from dataclasses import field
from typing import Final

from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.ddl.functions import type_name
from kpg.compiler.sql.ddl.reader import Reader
from kpg.runtime.errors import Error
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

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
