"""Matches over nodes of the algebra, of plans and of scalars are closed: mypy shows what lacks a new one."""

import ast
from collections.abc import Iterator
from pathlib import Path

COMPILER = Path(__file__).parents[3] / "compiler"
SCALARS = {"Column", "Fetch", "Literal", "If", "Call"}


def classes(pattern: ast.pattern) -> Iterator[str]:
    """The classes that a pattern tells apart at its top."""
    match pattern:
        case ast.MatchOr(patterns=patterns):
            for one in patterns:
                yield from classes(one)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from classes(inner)
        case ast.MatchClass(cls=cls):
            yield ast.unparse(cls)
        case _:
            pass


def is_over_nodes(node: ast.Match, scalars: bool) -> bool:
    names = {name for case in node.cases for name in classes(case.pattern)}
    return any(name.startswith(("algebra.", "plan.")) for name in names) or (
        scalars and bool(names) and names <= SCALARS
    )


def test_matches_over_nodes_end_in_assert_never() -> None:
    found = []
    for file in sorted(COMPILER.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        scalars = "from kpg.runtime.scalar import" in text and "rules.core import" not in text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Match) and is_over_nodes(node, scalars):
                last = node.cases[-1]
                if not ast.unparse(last.body[-1]).startswith("assert_never("):
                    found.append(f"{file.relative_to(COMPILER)}:{node.lineno}")
    assert found == []
