"""Functions that do something, for each row of a query that is asked once: ``pg_notify`` and its like."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from kpg.compiler.sql import statements as ast
from kpg.engine import Engine
from kpg.result import Result
from kpg.result import listing as listed
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import BOOLEAN, TEXT, Type

Act = Callable[[Engine, Sequence[Any]], Any]


def _notify(engine: Engine, args: Sequence[Any]) -> str:
    channel, payload = args
    engine.transactions.box(engine.channels).notify(
        "" if channel is None else str(channel), payload or "", engine.transactions.depth
    )
    return ""


def _cancel(engine: Engine, args: Sequence[Any]) -> bool:
    return engine.ends is not None and args[0] is not None and engine.ends(args[0], False)


def _terminate(engine: Engine, args: Sequence[Any]) -> bool:
    return engine.ends is not None and args[0] is not None and engine.ends(args[0], True)


ACTS: Final[Mapping[str, tuple[int, Type, str, Act]]] = {
    "pg_notify": (2, TEXT, "text", _notify),
    "pg_cancel_backend": (1, BOOLEAN, "int", _cancel),
    "pg_terminate_backend": (1, BOOLEAN, "int", _terminate),
}
"""By name: how many arguments, what comes out, what the arguments are brought to, what it does."""


def _name(node: exp.Expr) -> str:
    node = node.this if isinstance(node, exp.Alias) else node
    if isinstance(node, exp.Dot) and node.this.name.lower() == "pg_catalog":
        node = node.expression
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    return name if name in ACTS else ""


def acts(statement: ast.Select) -> bool:
    """Whether the columns of a query are to do something."""
    tree = statement.query
    return isinstance(tree, exp.Select) and any(map(_name, tree.expressions))


def idle(statement: ast.Select) -> ast.Select:
    """A query with the same columns that does nothing."""
    tree = statement.query.copy()
    made = []
    for node in tree.expressions:
        name = _name(node)
        if name:
            nothing = exp.Cast(this=exp.Null(), to=exp.DataType.build(str(ACTS[name][1])))
            node = exp.alias_(nothing, node.alias or name)
        made.append(node)
    tree.set("expressions", made)
    return replace(statement, query=tree)


def run(engine: Engine, statement: ast.Select, select: Callable[[Engine, ast.Select], Result]) -> Result:
    """The query's rows; what it does is done for each of them, in their order."""
    tree = statement.query.copy()
    columns: list[exp.Expr] = []
    parts: list[tuple[str, str]] = []
    for node in tree.expressions:
        name = _name(node)
        parts.append((name, node.alias or name))
        columns += _arguments(statement, node, name) if name else [node]
    if any(not name and node.find(exp.Star) for (name, _), node in zip(parts, tree.expressions, strict=True)):
        raise ProgrammingError("* beside a function that does something cannot be selected")
    tree.set("expressions", columns)
    found = select(engine, replace(statement, query=tree))
    rows = found.fetchall()
    place, made = 0, {}
    for name, label in parts:
        key = label or found.columns[place]
        while key in made:
            key += " "
        if name:
            count, type_, _, act = ACTS[name]
            made[key] = (type_, [act(engine, row[place : place + count]) for row in rows])
            place += count
        else:
            made[key] = (found.types[place], [row[place] for row in rows])
            place += 1
    if engine.transactions.state.name == "NONE":
        engine.transactions.say()
    return listed(made)


def _arguments(statement: ast.Select, node: exp.Expr, name: str) -> list[exp.Expr]:
    call = node.this if isinstance(node, exp.Alias) else node
    call = call.expression if isinstance(call, exp.Dot) else call
    count, _, type_, _ = ACTS[name]
    if len(call.expressions) != count:
        raise ProgrammingError(f"{name} takes {count} arguments", span=statement.span)
    return [exp.Cast(this=part.copy(), to=exp.DataType.build(type_)) for part in call.expressions]
