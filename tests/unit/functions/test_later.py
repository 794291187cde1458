"""The list of what is defined when it is asked for is what the modules define, and is not defined before."""

import subprocess
import sys
from pathlib import Path

from kpg.runtime.functions import aggregation, functions, later, tables

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import kpg
from kpg.runtime.functions import is_function, later, registry, tables
from kpg.runtime.functions.tables import makes_rows

db = kpg.connect()
assert all(map(is_function, later.scalar_names())) and all(map(makes_rows, later.row_names()))
assert not later.scalar_names() & registry._FUNCTIONS.keys()
assert not later.row_names() & tables._FUNCTIONS.keys()
print(db.sql("select gcd(12, 18)").fetchall())
known = [name for name in later.SCALARS if f"kpg.runtime.functions.{name}" in sys.modules]
print(known)
"""


def test_nothing_is_defined_before_it_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[(6,)]", "['integers']"]


def test_modules_define_what_is_listed_under_them() -> None:
    program = (
        "from kpg.runtime.functions import {module}, registry, tables; "
        "import kpg.runtime.functions as all; "
        "from kpg.runtime.functions import aggregation; "
        "print(*sorted({{**registry._FUNCTIONS, **tables._FUNCTIONS, **aggregation._AGGREGATES}}))"
    )
    before = set(_printed(program.format(module="text")))
    kinds = (later.SCALARS, later.ROWS, later.AGGREGATES)
    for module in [module for names in kinds for module in names]:
        listed = {name for names in kinds for name in names.get(module, "").split()}
        defined = set(_printed(program.format(module=module))) - before
        brought = {name for name in defined if _home(name) != module}
        assert defined - brought == listed, module


def _home(name: str) -> str:
    places = {
        one: module
        for names in (later.SCALARS, later.ROWS, later.AGGREGATES)
        for module in names
        for one in names[module].split()
    }
    return places[name]


def _printed(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_all_are_there_once_all_are_asked_for() -> None:
    assert later.scalar_names() <= {one.name for one in functions()}
    named = {one for one in later.row_names() if not one.startswith("$")}
    assert named <= {one.name for one in tables.row_functions()}
    assert aggregation.aggregate_names() == {one.name for one in aggregation.aggregates()}
