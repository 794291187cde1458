"""What Python does for the README's ten lines: modules, collections of garbage, functions compiled.

Counted, not timed. What is too much here is imported by something that the ten lines need not have.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.markdown import blocks

ROOT = Path(__file__).parents[1]
TEN_LINES = next(one.code for one in blocks((ROOT / "README.md").read_text(encoding="utf-8")))
MOST_MODULES = 248
"""Of kpg. Each takes a quarter of a millisecond, and five times that where there is no bytecode yet."""
MOST_INITS = 137
"""Dataclasses of which instances are made; some three hundred are declared."""
MOST_COLLECTIONS = 3
"""Of garbage, from the call of ``connect`` to its return."""
NOT_NEEDED = {
    "concurrent.futures": "nothing runs in threads",
    "duckdb": "for TPC-H",
    "html": "for notebooks",
    "kpg.cli": "",
    "kpg.collections": "",
    "kpg.compiler.datalog": "",
    "kpg.compiler.explain": "",
    "kpg.compiler.physical.join": "there is no join",
    "kpg.compiler.rules.core": "there is no recursion",
    "kpg.datalog": "",
    "kpg.api.display": "nothing is shown as a box",
    "kpg.execute.changes.bulk_load": "",
    "kpg.execute.queries.plan_cache": "no statement comes twice",
    "kpg.runtime.native.interpret": "",
    "kpg.runtime.native.jit": "",
    "kpg.runtime.operators.join": "there is no join",
    "kpg.runtime.operators.topk": "there is no top-k",
    "kpg.runtime.worker.derivation_rounds": "there is no recursion",
    "kpg.runtime.render.user_nodes": "there are no functions of users",
    "kpg.runtime.spark": "",
    "kpg.tpch": "",
    "lark": "for Datalog",
    "llvmlite": "kernels are compiled already",
    "multiprocessing": "",
    "numba": "kernels are compiled already",
    "numpy.ma": "np.unique imports it",
    "pandas": "pyarrow imports it for a list of values",
    "polars": "",
    "prompt_toolkit": "",
    "pyarrow": "for columns and files: a thirteenth of the time",
    "pyspark": "",
    "rich": "",
    "typer": "",
}
"""Modules, and why the ten lines do without."""
PROBE = """
import gc, json, sys
import kpg
before = sum(one["collections"] for one in gc.get_stats())
kpg.connect()
collections = sum(one["collections"] for one in gc.get_stats()) - before
exec({lines!r})
made = [one for one in gc.get_objects() if isinstance(one, type) and "__dataclass_fields__" in vars(one)]
inits = [one for one in made if "__init__" in vars(one) and one.__module__.startswith("kpg")]
inits = [one.__name__ for one in inits if one.__init__.__code__.co_filename == "<string>"]
found = {{"modules": sorted(sys.modules), "collections": collections, "inits": sorted(inits)}}
print(json.dumps(found), file=sys.stderr)
"""

COMMAND = """
import json, sys
sys.argv = ["kpg", "sql", "-c", "create table t (a int, b varchar); insert into t values (1, 'x'); table t"]
from kpg.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
COMMAND_NEEDS = {"html", "kpg.cli", "kpg.api.display", "typer"}


def run(program: str) -> str:
    """What it prints to the standard error."""
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stderr


@cache
def found() -> dict[str, Any]:
    """Of a second start: the first may have kernels to compile."""
    run(PROBE.format(lines=TEN_LINES))
    result: dict[str, Any] = json.loads(run(PROBE.format(lines=TEN_LINES)).splitlines()[-1])
    return result


def test_unneeded_modules_are_not_imported() -> None:
    assert not NOT_NEEDED.keys() & set(found()["modules"])


def test_few_modules_are_imported() -> None:
    own = [name for name in found()["modules"] if name.split(".")[0] == "kpg"]
    assert len(own) <= MOST_MODULES, own


def test_dataclasses_that_have_no_instances_are_not_compiled() -> None:
    assert 0 < len(found()["inits"]) <= MOST_INITS, found()["inits"]


def test_the_collector_rests_while_modules_are_imported() -> None:
    assert found()["collections"] <= MOST_COLLECTIONS


def test_the_command_line_imports_little_more() -> None:
    run(COMMAND)  # its kernels may have to be compiled
    imported = set(json.loads(run(COMMAND).splitlines()[-1]))
    assert imported & set(NOT_NEEDED) <= COMMAND_NEEDS


SLOW = {"duckdb", "numba", "pandas", "polars", "pyspark"}
"""Packages that take long to import."""


@pytest.mark.parametrize("module", ["kpg", "kpg.compiler.pipeline"])
def test_an_import_loads_no_slow_package(module: str) -> None:
    loaded = run(f"import sys, {module}; print(*sys.modules, file=sys.stderr)").split()
    assert not SLOW & {name.partition(".")[0] for name in loaded}


def test_no_module_is_loaded_under_a_second_name() -> None:
    loaded = run(
        "import importlib, pkgutil, sys, kpg\n"
        "for module in pkgutil.walk_packages(kpg.__path__, 'kpg.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "print(*sys.modules, file=sys.stderr)"
    ).split()
    assert not {"compiler", "grammars", "runtime", "tpch"} & {name.partition(".")[0] for name in loaded}
