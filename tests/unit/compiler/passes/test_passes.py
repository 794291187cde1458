"""Each pass on its golden file, and the promises that hold for the whole pipeline."""

import itertools
from pathlib import Path

import pytest

from kpg.compiler import passes
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.text import parse, rel_text
from kpg.compiler.catalog.entries import get_node
from kpg.compiler.passes import PIPELINE, Pass, run
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from tests.datadriven import check_file
from tests.model.relation import Rows, rows_of
from tests.model.scalar import ScalarError
from tests.unit.compiler.sql.oracle import Data, catalog_of
from tests.unit.compiler.sql.test_queries import (
    GROUPS,
    JOINS,
    SETS,
    SIMPLE,
    SUBQUERIES,
    TABLES,
    WITH,
    random_data,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "passes"
CATALOG = catalog_of(TABLES)
RELATIONS = {entry.name: get_node(entry) for entry in CATALOG}
BY_NAME = {one.name: one for one in PIPELINE}
DATA: Data = random_data(8)


def outcome(rel: Rel) -> Rows | str:
    """The rows, or that there are none because an expression fails."""
    try:
        return rows_of(rel, DATA)
    except ScalarError:
        return "error"


def apply(one: Pass, rel: Rel) -> str:
    after = one.rewrite(rel)
    assert outcome(after) == outcome(rel)
    return "unchanged" if after == rel else rel_text(after)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_golden(name: str, rewrite: bool) -> None:
    def golden(command: str, text: str) -> str:
        match command:
            case "plan":
                return apply(BY_NAME[name], parse(text, RELATIONS))
            case "query":
                return apply(BY_NAME[name], lower_query(parse_query(text), CATALOG).rel)
            case _:
                raise AssertionError(command)

    check_file(GOLDEN / f"{name}.test", golden, rewrite=rewrite)


def test_every_pass_has_its_module_its_place_and_its_golden_file() -> None:
    folder = Path(passes.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert modules == set(BY_NAME) == {path.stem for path in GOLDEN.glob("*.test")}


@pytest.mark.parametrize("query", [*SIMPLE, *JOINS, *GROUPS, *SETS, *WITH, *SUBQUERIES])
def test_every_pass_keeps_the_meaning(query: str) -> None:
    rel = lower_query(parse_query(query), CATALOG).rel
    expected = rows_of(rel, DATA)
    for step in run(rel, PIPELINE):
        assert rows_of(step.rel, DATA) == expected, step.name


@pytest.mark.parametrize("query", [*JOINS, *GROUPS, *SUBQUERIES])
def test_single_passes_keep_the_meaning(query: str) -> None:
    """Also where they run alone: no pass counts on an earlier one to be right."""
    rel = lower_query(parse_query(query), CATALOG).rel
    expected = rows_of(rel, DATA)
    for one in BY_NAME.values():
        assert rows_of(one.rewrite(rel), DATA) == expected, one.name


def test_steps_are_only_the_passes_that_changed_something() -> None:
    rel = lower_query(parse_query("select a from r where k = 1 and 1 < 2"), CATALOG).rel
    steps = run(rel, PIPELINE)
    plans = [rel, *(step.rel for step in steps)]
    assert all(before != after for before, after in itertools.pairwise(plans))
