"""The list of what is defined when it is asked for is what the modules define, and is not defined before."""

import subprocess
import sys
from pathlib import Path

import pytest

from kpg.runtime.functions import autoload, functions, table_functions
from kpg.runtime.functions.aggregation import definition

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import kpg
from kpg.runtime.functions import autoload, is_function, registry, table_functions
from kpg.runtime.functions.table_functions import is_row_function

db = kpg.connect()
assert all(map(is_function, autoload.scalar_names()))
assert all(map(is_row_function, autoload.row_function_names()))
assert not autoload.scalar_names() & registry._FUNCTIONS.keys()
assert not autoload.row_function_names() & table_functions._FUNCTIONS.keys()
print(db.sql("select gcd(12, 18)").fetchall())
known = [name for name in autoload.SCALARS if f"kpg.runtime.functions.{name}" in sys.modules]
print(known)
"""


def test_nothing_is_defined_before_it_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[(6,)]", "['mathematics']"]


@pytest.mark.slow
def test_modules_define_what_is_listed_under_them() -> None:
    program = (
        "import kpg.runtime.functions.{module}; "
        "from kpg.runtime.functions import registry, table_functions; "
        "from kpg.runtime.functions.aggregation import definition; "
        "print(*sorted({{**registry._FUNCTIONS, **table_functions._FUNCTIONS, **definition._AGGREGATES}}))"
    )
    before = set(_printed(program.format(module="text")))
    kinds = (autoload.SCALARS, autoload.ROW_FUNCTIONS, autoload.AGGREGATES)
    for module in [module for names in kinds for module in names]:
        listed = {name for names in kinds for name in names.get(module, "").split()}
        defined = set(_printed(program.format(module=module))) - before
        brought = {name for name in defined if _home(name) != module}
        assert defined - brought == listed, module


def _home(name: str) -> str:
    places = {
        one: module
        for names in (autoload.SCALARS, autoload.ROW_FUNCTIONS, autoload.AGGREGATES)
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
    assert autoload.scalar_names() <= {one.name for one in functions()}
    named = {one for one in autoload.row_function_names() if not one.startswith("$")}
    assert named <= {one.name for one in table_functions.row_functions()}
    names = definition.aggregate_names()
    built_in = {name for name in names if not definition.lookup_aggregate(name).extension}
    assert built_in == {one.name for one in definition.aggregates()}
