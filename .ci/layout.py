"""Check the tree of the product: its folders and modules, and what each part may know.

Reads the sources as text. Cycles and imports inside functions are the subject of ``imports.py``.
"""

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LINKED: Final = ("compiler", "runtime", "grammars", "tpch")
"""Folders of the root that are packages of kpg, by symbolic links."""
DOORS: Final = {
    "numba": "runtime/native/",
    "pyspark": "runtime/spark/",
    "sqlglot": "compiler/sql/",
    "lark": "compiler/datalog/",
    "duckdb": "tpch/",
    "typer": "kpg/cli/",
    "prompt_toolkit": "kpg/cli/",
    "pygwire": "kpg/server/",
}
"""The only folder that may import a package."""
VOCABULARY: Final = {
    "values": "values of the types, in words and in Python",
    "convert": "values, Arrow and files to words and back",
    "dictionary": "the strings of words",
    "errors": "the errors of all layers",
    "executor": "the protocol",
    "executor_factory": "makes an executor",
    "extensions": "which extensions are installed",
    "functions": "names and types of SQL's functions",
    "gc_pause": "modules that are imported late",
    "handles": "inputs and outputs of an executor",
    "interrupts": "Ctrl-C and cancellation points",
    "monitor": "mutual exclusion of threads",
    "plan": "requests to an executor, with users' functions",
    "progress_report": "progress of long steps, which the session layer shows",
    "records": "dataclasses, in all layers",
    "scalar": "expressions of plans",
    "sockets": "requests of many clients to words",
    "spark": "loads from Spark, to Arrow",
    "storage": "files and their formats",
    "types": "column types, and their words",
    "unsupported_features": "features that are refused by name",
}
"""The modules of the runtime that the session layer may import, and why."""
NOT_SESSION: Final = {"__init__", "__main__", *LINKED}
PARTICIPLE: Final = re.compile(
    r"[a-z]+(ing|ed)|then|within|given|once|outside|through|kept|told|meant|far|made|shown|named"
)
MOST_PARTICIPLES: Final = 9
"""Words of the field may be participles: ``hashing``, ``grouping``."""
MOST_MODULES: Final = 27
"""Of one folder. In more, a reader does not find the one that he looks for."""
KERNELS: Final = "runtime/kernels"
"""May have more modules: the compiled code of a module depends on its name."""
TRAP: Final = re.compile(r"^\| T(\d+) \| .+ \| (.+) \|$", re.M)
TRAP_TEST: Final = re.compile(r"def test_((?:t\d+_)+)|\((T\d+)\)")
TRAPS_WITHOUT_TESTS: Final = {28}
"""Every test of many workers relies on it."""


def sources() -> dict[str, str]:
    """Return the texts of the product's modules by path."""
    paths = [path for folder in (*LINKED, "kpg") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def links() -> Iterator[str]:
    """Each linked folder is the package of its name in kpg."""
    for name in LINKED:
        link = ROOT / "kpg" / name
        if not link.is_symlink() or link.resolve() != ROOT / name:
            yield f"kpg/{name}: is not a link to {name}"


def docstrings(texts: dict[str, str]) -> Iterator[str]:
    """Each module has a docstring."""
    for path, text in texts.items():
        if not ast.get_docstring(ast.parse(text)):
            yield f"{path}: has no docstring"


def packages(texts: dict[str, str]) -> Iterator[str]:
    """Each folder is a package, and small enough to read as a list."""
    counts = Counter(path.rpartition("/")[0] for path in texts)
    for folder, count in counts.items():
        if f"{folder}/__init__.py" not in texts:
            yield f"{folder}: has no __init__.py"
        if count > MOST_MODULES and folder != KERNELS:
            yield f"{folder}: has {count} modules, more than {MOST_MODULES}"


def names(texts: dict[str, str]) -> Iterator[str]:
    """Modules are named by nouns."""
    found = [path for path in texts if PARTICIPLE.fullmatch(Path(path).stem)]
    if len(found) > MOST_PARTICIPLES:
        yield f"more than {MOST_PARTICIPLES} modules are named by participles: {', '.join(found)}"


def doors(texts: dict[str, str]) -> Iterator[str]:
    """A package that is not ours is imported in one folder."""
    statement = re.compile(rf"^\s*(?:from|import) ({'|'.join(DOORS)})\b", re.M)
    for path, text in texts.items():
        for package in sorted(set(statement.findall(text))):
            if not path.startswith(DOORS[package]):
                yield f"{path}: imports {package}, which only {DOORS[package]} may"


def dataclasses(texts: dict[str, str]) -> Iterator[str]:
    """Dataclasses are those of ``runtime/records.py``: the standard library's take longer to import.

    Except in what the keys of compiled kernels depend on: a change would compile them all again.
    """
    statement = re.compile(r"^from dataclasses import .*\bdataclass\b", re.M)
    for path, text in texts.items():
        if path != "runtime/native/signature.py" and statement.search(text):
            yield f"{path}: imports dataclass from dataclasses, not from kpg.runtime.records"


def modules_of(folder: Path) -> set[str]:
    """Return the names of the modules and packages of a folder."""
    return {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }


def vocabulary() -> Iterator[str]:
    """Each module of the runtime is hidden from the session layer, or listed above with a reason."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one["name"].startswith("the face sees"))
    hidden = {name.removeprefix("kpg.runtime.") for name in contract["forbidden_modules"]}
    for name in sorted(hidden & set(VOCABULARY)):
        yield f"runtime/{name}: is in VOCABULARY of .ci/layout.py and forbidden by pyproject.toml"
    for name in sorted((hidden | set(VOCABULARY)) ^ (modules_of(ROOT / "runtime") - {"__init__"})):
        yield f"runtime/{name}: list it in VOCABULARY of .ci/layout.py or as forbidden in pyproject.toml"
    session = {name.removeprefix("kpg.") for name in contract["source_modules"]}
    for name in sorted(session ^ (modules_of(ROOT / "kpg") - NOT_SESSION)):
        yield f"kpg/{name}: source_modules of the contract in pyproject.toml are the packages of kpg"


def architecture() -> Iterator[str]:
    """The table of folders in ARCHITECTURE.md lists the packages of the three layers."""
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Folders")[2]
    listed = Counter(re.findall(r"^\| `([\w/]+)` \|", table, re.M))
    folders = Counter(
        f"{layer}/{path.parent.name}"
        for layer in ("compiler", "runtime", "kpg")
        for path in (ROOT / layer).glob("*/__init__.py")
        if not path.parent.is_symlink()
    )
    for folder in sorted((listed - folders) + (folders - listed)):
        yield f"ARCHITECTURE.md: the table of folders and the tree differ in {folder}"


def traps() -> Iterator[str]:
    """The page of traps and the tests that bear its numbers name each other."""
    tested = defaultdict(set)
    for path in ROOT.glob("tests/**/*.py"):
        for labels, number in TRAP_TEST.findall(path.read_text(encoding="utf-8")):
            for trap in re.findall(r"[tT](\d+)", labels or number):
                tested[int(trap)].add(path.relative_to(ROOT).as_posix())
    text = (ROOT / "docs" / "explanation" / "traps.md").read_text(encoding="utf-8")
    paths = dict(re.findall(r"^\[(.+)\]: \.\./\.\./(\S+)$", text, re.M))
    listed = {
        int(trap): {paths[label] for label in re.findall(r"\[(.+?)\]", files)}
        for trap, files in TRAP.findall(text)
    }
    for trap in sorted(listed.keys() | tested.keys()):
        if trap not in listed or listed[trap] != tested[trap]:
            wanted = ", ".join(sorted(tested[trap])) or "no file"
            yield f"docs/explanation/traps.md: T{trap} is tested in {wanted}"
        elif not listed[trap] and trap not in TRAPS_WITHOUT_TESTS:
            yield f"docs/explanation/traps.md: T{trap} has no test"


def main() -> int:
    """Print the violations; return 1 if there are any."""
    texts = sources()
    violations = [*links(), *docstrings(texts), *packages(texts), *names(texts), *doors(texts)]
    violations += [*dataclasses(texts), *vocabulary(), *architecture(), *traps()]
    print("\n".join(violations), end="\n" if violations else "")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
