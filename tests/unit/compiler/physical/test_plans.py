"""Plans of small queries: right by the model of plans, optimised or not, and golden texts of EXPLAIN."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from kpg.compiler.explain import explain
from kpg.compiler.passes import PIPELINE
from kpg.compiler.physical.cardinality import NoStatistics
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse, parse_query
from kpg.compiler.sql.parse.statements import Select
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.tpch.data import create_statements, query_text
from tests.datadriven import check_file
from tests.model.plan import rows_of_plan
from tests.unit.compiler.sql.oracle import Data, assert_same, catalog_of, database_of
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

CATALOG = catalog_of(TABLES)
TPCH = catalog_of("; ".join(create_statements().values()))
GOLDEN = Path(__file__).parents[3] / "golden" / "physical"


@pytest.fixture(scope="module")
def database() -> Iterator[tuple[Data, duckdb.DuckDBPyConnection]]:
    data = random_data(5)
    with database_of(TABLES, data) as connection:
        yield data, connection


@pytest.mark.parametrize("query", [*SIMPLE, *JOINS, *GROUPS, *SETS, *WITH, *SUBQUERIES])
def test_agrees_with_duckdb(query: str, database: tuple[Data, duckdb.DuckDBPyConnection]) -> None:
    data, connection = database
    bound = lower_query(parse_query(query), CATALOG)
    expected = connection.execute(query).fetchall()
    for passes in ((), PIPELINE):
        rows = rows_of_plan(compile_query(bound, passes=passes).plan, data)
        assert all(count > 0 for count in rows.values())
        assert_same((row[: bound.visible] for row in rows.elements()), expected)


def run(command: str, text: str) -> str:
    match command.split():
        case ["tpch", number]:
            (statement,) = parse(query_text(int(number)))
            catalog = TPCH
        case ["physical"]:
            (statement,) = parse(text)
            catalog = CATALOG
        case _:
            raise AssertionError(command)
    assert isinstance(statement, Select)
    return explain(statement, "physical", catalog).text()


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.test")))
def test_golden(name: str, rewrite: bool) -> None:
    check_file(GOLDEN / name, run, rewrite=rewrite)


def select(text: str) -> Select:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return statement


@pytest.mark.parametrize("stage", ["ast", "logical", "steps", "optimized", "physical"])
def test_every_stage_is_stable_text(stage: str) -> None:
    query = select("select a, count(*) from r where k > 1 group by a")
    text = explain(query, stage, CATALOG).text()
    assert text and text == explain(query, stage, CATALOG).text()


def test_unknown_stage() -> None:
    with pytest.raises(InterfaceError, match='there is no stage "fast"'):
        explain(select("select 1"), "fast", CATALOG)


@dataclass(frozen=True)
class Existing(NoStatistics):
    """A table r that is arranged by (a, b)."""

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        return ((1, 2),) if table == "r" else ()


def lookups(query: Plan) -> int:
    return sum(isinstance(node, plan.Arrange) for node in query.nodes)


def test_an_arrangement_that_exists_is_used() -> None:
    bound = lower_query(parse_query("select r.k from r, r as other where r.a = other.a"), CATALOG)
    without = compile_query(bound).plan
    existing = compile_query(bound, Existing()).plan
    assert lookups(existing) == lookups(without)
    assert any(isinstance(node, plan.Arrange) and node.key == 2 for node in existing.nodes)


def test_a_tower_of_doublings_stays_small() -> None:
    """Each level uses the one below twice: written out, the expression would have 2**40 parts."""
    query = "select a as x from r"
    for _ in range(40):
        query = f"select x + x as x from ({query}) as t"
    compiled = compile_query(lower_query(parse_query(query), CATALOG))
    assert len(compiled.plan.nodes) < 45
