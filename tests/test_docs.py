"""Examples in docstrings and documents run."""

import doctest
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kpg.cli.functions import format_functions_page
from tests.markdown import blocks

ROOT = Path(__file__).parents[1]


def modules_with_examples() -> Iterator[str]:
    """The modules of kpg with examples in docstrings."""
    for folder in ("compiler", "grammars", "kpg", "runtime", "tpch"):
        for path in (ROOT / folder).rglob("*.py"):
            if ">>> " in path.read_text(encoding="utf-8"):
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                yield name if folder == "kpg" else f"kpg.{name}"


def programs() -> dict[str, str]:
    """The Python and SQL blocks of each document, one after the other; README.md has a test of its own."""
    found = {}
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        program = []
        for block in blocks(path.read_text(encoding="utf-8")):
            if block.language == "python":
                program.append(block.code)
            elif block.language == "sql":
                statements = filter(str.strip, block.code.split(";"))
                program += [f"db.sql({statement!r})" for statement in statements]
        if program and path.name != "README.md":
            found[path.relative_to(ROOT).as_posix()] = "\n".join(program)
    return found


@pytest.mark.parametrize("name", sorted(modules_with_examples()))
def test_docstring_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("program", programs().values(), ids=programs().keys())
def test_document_examples(program: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", f"import kpg\ndb = kpg.connect()\n{program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


def test_the_page_of_functions_is_generated() -> None:
    page = ROOT / "docs" / "reference" / "functions.md"
    regenerate = "kpg functions --markdown > docs/reference/functions.md"
    assert page.read_text(encoding="utf-8") == format_functions_page(), regenerate
