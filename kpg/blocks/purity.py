"""Whether a body neither reads nor changes anything: then views may call it, and steps run it."""

import dataclasses
from collections.abc import Iterator

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import Routine
from kpg.compiler.sql.blocks import tree as ast
from kpg.compiler.sql.blocks.parser import block_of
from kpg.compiler.sql.bodies import texts_of
from kpg.compiler.sql.variables import calls_in, expression_of
from kpg.compiler.sql.volatile import MENTIONS
from kpg.runtime.errors import Error

IMPURE = (
    ast.ForRows,
    ast.ReturnQuery,
    ast.Sql,
    ast.OpenCursor,
    ast.FetchCursor,
    ast.CloseCursor,
)


def is_pure(routine: Routine, catalog: Catalog) -> bool:
    """Whether it is."""
    if routine.kind == "procedure" or routine.result.name in ("trigger", "record"):
        return False
    try:
        if routine.language == "plpgsql":
            texts = list(_texts(block_of(routine.body)))
        else:
            (query,) = texts_of(routine.body)
            if query[:6].lower() != "select" or routine.rows:
                return False
            texts = [query[6:]]
        return all(_is_pure_text(text, routine, catalog) for text in texts)
    except (Error, _Impure, ValueError):
        return False


class _Impure(Exception):
    """It is not."""


def _texts(part: object) -> Iterator[str]:
    """The expressions of a body."""
    match part:
        case tuple():
            for item in part:
                yield from _texts(item)
        case ast.Declared(kind="cursor"):
            raise _Impure
        case ast.Declared(kind="alias"):
            return
        case ast.Declared(default=default):
            if default:
                yield default
        case ast.End(what=what) if what:
            raise _Impure
        case ast.Raise(arguments=arguments, options=options):
            yield from arguments
            yield from (text for _, text in options)
        case ast.Perform(query=query):
            yield query[6:]
        case ast.Diagnostics() | ast.End():
            return
        case ast.Exit(condition=condition):
            if condition:
                yield condition
        case ast.Assign(value=value):
            yield value
        case ast.Case(operand=operand, branches=branches, otherwise=otherwise):
            for values, body in branches:
                yield f"({operand}) IN ({values})"
                yield from _texts(body)
            yield from _texts(otherwise or ())
        case ast.If(branches=branches, otherwise=otherwise):
            for condition, body in branches:
                yield condition
                yield from _texts(body)
            yield from _texts(otherwise or ())
        case ast.Block() | ast.Handler():
            for field in dataclasses.fields(part):
                value = getattr(part, field.name)
                if isinstance(value, tuple) and field.name != "conditions":
                    yield from _texts(value)
        case _ if isinstance(part, IMPURE):
            raise _Impure
        case _:
            yield from _of_others(part)


def _of_others(part: object) -> Iterator[str]:
    """Loops, RETURN and ASSERT: their texts are expressions, all but labels and names."""
    assert dataclasses.is_dataclass(part)
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name == "body":
            yield from _texts(value)
        elif isinstance(value, str) and value and field.name not in ("label", "variable"):
            yield value


def _is_pure_text(text: str, routine: Routine, catalog: Catalog) -> bool:
    if expression_of(text) is None or MENTIONS.search(text):
        return False
    for name in calls_in(text):
        for one in catalog.routines.get(name, ()):
            if one.name == routine.name:
                # An expression computes all branches of a CASE, so that only PL/pgSQL may call itself.
                if routine.language != "plpgsql":
                    return False
            elif not one.pure if one.runs else _reads(one):
                return False
    return True


def _reads(routine: Routine) -> bool:
    """Whether a function whose body is put in the place of calls may read tables."""
    return expression_of(routine.body.strip().removeprefix("SELECT").removeprefix("select")) is None
