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
from kpg.cli.functions import format_functions_page
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


FOLDERS = (".ci", "benchmarks", "build_backend", "compiler", "datalog_examples", "docs", "grammars", "kpg")
FOLDERS += ("runtime", "tests", "tpch")
EVERYTHING = [
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")))
    if "__pycache__" not in path.parts
]
"""The files and folders, as paths from the root."""
MADE_UP = {"expr", "idx", "ARRANGEMENTS", "test_t44_..."}
"""Names that documents mention as bad ones, as words of SQL, or as forms of names."""
FILE = re.compile(r"[a-z_.][\w.-]*(/[\w.-]+)*\.(py|c|lark|sql|toml|md)|[a-z][\w.]*(/[\w.-]+)+/?")
LINK = re.compile(r"\]\(([^)#\s]+)")
NAME = re.compile(r"[A-Za-z_][\w.]*(\(\w*\))?")


def words() -> set[str]:
    """All words of the sources, tests, grammars and settings."""
    files = [ROOT / path for path in EVERYTHING if re.search(r"\.(py|c|lark|toml)$|Makefile$", path)]
    return {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}


def spans(path: Path) -> list[str]:
    """What stands between backticks in the text of a document."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("path", [ROOT / "README.md", *documents()], ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    """Whole paths as they are written; a file without its folder is the end of some path."""
    tops = {name.partition("/")[0] for name in EVERYTHING}
    known = {*EVERYTHING, *(f"kpg/{name}" for name in EVERYTHING)}
    for name in (span.rstrip("/") for span in spans(path) if FILE.fullmatch(span)):
        if "/" in name and name.partition("/")[0] in tops:
            assert name in known
        elif "." in name:
            assert any(f"/{one}".endswith(f"/{name}") for one in EVERYTHING), name


@pytest.mark.parametrize(
    "name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/reference/performance.md"]
)
def test_names_of_code_exist(name: str) -> None:
    known = words() | MADE_UP
    for span in filter(NAME.fullmatch, spans(ROOT / name)):
        assert span in known or set(re.findall(r"\w+", span)) <= known, span
        if span.startswith(("compiler.", "runtime.")):
            pkgutil.resolve_name(f"kpg.{span}")


def test_objects_of_the_python_reference_exist() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    objects = re.findall(r"^::: (\S+)$", text, re.M)
    assert len({id(pkgutil.resolve_name(name)) for name in objects}) == len(objects) > 5


def test_every_page_is_linked_from_the_front_page() -> None:
    front = ROOT / "docs" / "index.md"
    linked = {(front.parent / target).resolve() for target in LINK.findall(front.read_text(encoding="utf-8"))}
    assert [page for page in documents() if page != front and page not in linked] == []


@pytest.mark.parametrize("path", [ROOT / "README.md", *documents()], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), target


def test_the_page_of_functions_is_generated() -> None:
    page = ROOT / "docs" / "reference" / "functions.md"
    regenerate = "kpg functions --markdown > docs/reference/functions.md"
    assert page.read_text(encoding="utf-8") == format_functions_page(), regenerate
