"""Check that a match over a closed union ends in ``assert_never``, so that no new member is forgotten."""

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, UnionType
from typing import get_args

import kpg

OPEN = {
    ("kpg.execute.definitions.alter_table", "_alter_view"): "the others are of tables only",
    (
        "kpg.execute.definitions.domains",
        "_column_actions",
    ): "what becomes of a column; other actions change the domain alone",
    ("kpg.execute.table_locks", "_named_tables"): "the others lock no table before they are made",
    ("kpg.execute.table_locks", "_locks_of_action"): "the others lock their own table, wholly",
    ("kpg.execute.definitions.domains", "alter_domain"): "the parser makes these actions only",
    ("kpg.execute.definitions.domains", "with_domains"): "the others have no columns",
    ("kpg.runtime.render.exchange", "_rows_below"): "the others are as large as what they read",
    ("kpg.compiler.datalog.syntax.components", "expand"): "every other statement is taken over as it is",
    ("kpg.runtime.plan.properties", "_of"): "the others are told apart by column_types",
    ("kpg.runtime.render.fingerprint", "_add"): "any other node is named by all of its fields",
    ("kpg.runtime.render.build", "_build"): "the others are told apart by build",
}
"""Matches that end otherwise, by module and function, and why."""


@cache
def modules() -> list[ModuleType]:
    """Everything of kpg that can be imported without its optional parts."""
    names = [found.name for found in pkgutil.walk_packages(kpg.__path__, "kpg.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


@cache
def members() -> frozenset[type]:
    """The classes of the project that are members of a union with a name."""
    unions = [
        value for module in modules() for value in vars(module).values() if isinstance(value, UnionType)
    ]
    closed = [get_args(union) for union in unions]
    return frozenset(
        kind
        for kinds in closed
        if all(isinstance(kind, type) and kind.__module__.startswith("kpg.") for kind in kinds)
        for kind in kinds
    )


def classes(pattern: ast.pattern, module: ModuleType) -> Iterator[type]:
    """The classes that a pattern asks its subject for."""
    match pattern:
        case ast.MatchClass(cls=named):
            yield eval(ast.unparse(named), vars(module))
        case ast.MatchOr(patterns=patterns):
            for one in patterns:
                yield from classes(one, module)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from classes(inner, module)
        case _:
            pass


def is_closed(node: ast.Match) -> bool:
    """Whether the last case is that nothing is left."""
    last = node.cases[-1]
    return last.guard is None and ast.unparse(last.body[-1]).startswith("assert_never(")


def open_matches(module: ModuleType) -> Iterator[tuple[str, str]]:
    """The functions with a match over members of a closed union that may forget one."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Match) and not is_closed(node):
                asked = {kind for case in node.cases for kind in classes(case.pattern, module)}
                if asked & members():
                    yield module.__name__, function.name


def main() -> int:
    """Print the violations; return 1 if there are any."""
    found = {place for module in modules() for place in open_matches(module)}
    for module, function in sorted(found - OPEN.keys()):
        print(f"{module}.{function}: a match over a closed union does not end in assert_never")
    for module, function in sorted(OPEN.keys() - found):
        print(f"{module}.{function}: is listed as OPEN in .ci/matches.py, and is closed or gone")
    return int(found != OPEN.keys())


if __name__ == "__main__":
    sys.exit(main())
