"""Checks of the source tree: import names, import costs and layers."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINKED = ("compiler", "runtime", "grammars", "tpch")
SOURCES = sorted(file for folder in (*LINKED, "kpg") for file in (ROOT / folder).rglob("*.py"))
DOORS = {
    "numba": ("runtime/native/",),
    "pyspark": ("runtime/spark/",),
    "sqlglot": ("compiler/sql/",),
    "lark": ("compiler/datalog/",),
    "duckdb": ("tpch/",),
    "typer": ("kpg/cli/",),
    "prompt_toolkit": ("kpg/cli/",),
    "pygwire": ("kpg/server/",),
}
"""The only places that may import a package."""
VOCABULARY = {
    "values": "what values of the types are, in words and in Python",
    "convert": "values, Arrow and files to words and back",
    "dictionary": "the strings of words",
    "errors": "what everybody raises",
    "executor": "the protocol",
    "functions": "names and types of SQL's functions",
    "handles": "what an executor is asked by",
    "interrupts": "Ctrl-C and cancellation points",
    "progress_report": "how far work is is drawn by the face, and told by it too",
    "monitor": "mutual exclusion around whatever of the face is called",
    "executor_factory": "makes an executor",
    "records": "dataclasses, in all layers",
    "plan": "what is asked of an executor, users' functions in it",
    "scalar": "expressions of plans",
    "sockets": "requests of many clients to words",
    "storage": "files, and what is in them",
    "spark": "loads from outside, to Arrow",
    "types": "types of columns, and their words",
    "unsupported_features": "what is refused by name",
}
"""What the face may know of the runtime, and why."""
NOT_FACE = {"__init__", "__main__", "compiler", "grammars", "runtime", "tpch"}
SLOW_IMPORTS = ("numba", "pyspark", "pandas", "polars", "duckdb")


def run_python(code: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("name", LINKED)
def test_folder_is_part_of_the_package(name: str) -> None:
    link = ROOT / "kpg" / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name


def test_import_loads_nothing_slow() -> None:
    loaded = run_python(
        "import sys, kpg; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    ).split()
    assert not set(SLOW_IMPORTS) & set(loaded)


def test_compiler_loads_no_kernels() -> None:
    code = "import sys, kpg.compiler.pipeline; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    assert not set(SLOW_IMPORTS) & set(run_python(code).split())


def test_nothing_is_loaded_under_a_second_name() -> None:
    code = (
        "import importlib, pkgutil, sys, kpg\n"
        "for module in pkgutil.walk_packages(kpg.__path__, 'kpg.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "print(*sys.modules)"
    )
    loaded = {name.split(".")[0] for name in run_python(code).split()}
    assert not loaded & set(LINKED)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no module docstring"


@pytest.mark.parametrize("package", DOORS)
def test_package_is_imported_in_one_place(package: str) -> None:
    pattern = re.compile(rf"^\s*(from|import) {package}\b", re.MULTILINE)
    users = {
        str(path.relative_to(ROOT)) for path in SOURCES if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert {user for user in users if not user.startswith(DOORS[package])} == set()


def modules_of(folder: Path) -> set[str]:
    """The names of what can be imported from a folder."""
    return {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }


def test_the_face_knows_of_the_runtime_what_is_listed_here() -> None:
    """A new module of the runtime is behind the executor, or a part of the vocabulary for a reason."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one["name"].startswith("the face sees"))
    hidden = {name.removeprefix("kpg.runtime.") for name in contract["forbidden_modules"]}
    assert hidden | set(VOCABULARY) == modules_of(ROOT / "runtime") - {"__init__"}
    assert not hidden & set(VOCABULARY)
    faces = {name.removeprefix("kpg.") for name in contract["source_modules"]}
    assert faces == modules_of(ROOT / "kpg") - NOT_FACE


def test_every_folder_has_a_row_in_the_architecture() -> None:
    """The table of folders in ARCHITECTURE.md lists the packages of the three layers, and nothing else."""
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Folders")[2]
    listed = re.findall(r"^\| `([\w/]+)` \|", table, re.M)
    packages = [
        f"{layer}/{path.parent.name}"
        for layer in ("compiler", "runtime", "kpg")
        for path in (ROOT / layer).glob("*/__init__.py")
        if not path.parent.is_symlink()
    ]
    assert sorted(listed) == sorted(packages)


def test_every_package_has_an_init() -> None:
    folders = {file.parent for file in SOURCES}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_dataclasses_are_made_when_they_are_used(path: Path) -> None:
    """By ``runtime/records.py``: the standard library takes longer for them than all other imports of kpg.

    Not in what the keys of compiled kernels depend on: they would have to be compiled again for it.
    """
    if path == ROOT / "runtime" / "native" / "signature.py":
        return
    assert not re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(encoding="utf-8"), re.M)
