"""Examples in docstrings and documents run."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kpg
from tests.markdown import blocks

ROOT = Path(__file__).parents[1]


def module_names() -> Iterator[str]:
    """Every module of kpg; a ``__main__`` would run when imported."""
    yield "kpg"
    for module in pkgutil.walk_packages(kpg.__path__, "kpg."):
        if not module.name.endswith("__main__"):
            yield module.name


def documents() -> list[Path]:
    """The Markdown files beside README.md, which has a test of its own, and those in ``docs``."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(file for file in files if file.name != "README.md")


@pytest.mark.parametrize("name", sorted(module_names()))
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_document_examples(path: Path) -> None:
    """Python and SQL blocks of a document, one after the other, in one program."""
    program = ["import kpg", "db = kpg.connect()"]
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language == "python":
            program.append(block.code)
        elif block.language == "sql":
            program += [f"db.sql({statement!r})" for statement in block.code.split(";") if statement.strip()]
    if len(program) == 2:
        return
    finished = subprocess.run(
        [sys.executable, "-c", "\n".join(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("path", [ROOT / "README.md", *documents()], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), target
