"""Plans of queries as they leave the front end, and the messages of what it refuses."""

from pathlib import Path

import pytest

from kpg.compiler.algebra.text import parse as parse_plan
from kpg.compiler.algebra.text import rel_text, relations
from kpg.compiler.sql.frontend import LoweredQuery, lower_query, lower_view
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import CreateView, Delete, Insert, Select, Update
from kpg.compiler.sql.rewrite.changes import lower_delete, lower_insert, lower_update
from kpg.compiler.sql.rewrite.upsert import lower_conflict
from kpg.runtime.errors import Error
from kpg.tpch.data import create_statements, query_text
from tests.datadriven import check_file
from tests.unit.compiler.sql.oracle import catalog_of

FOLDER = Path(__file__).parents[3] / "golden" / "sql"
TABLES = """
create table t (k integer primary key, a integer, b decimal(8, 2) not null, s varchar(10), d date);
create table u (a integer, x bigint not null)
"""
SMALL = catalog_of(TABLES)
TPCH = catalog_of("; ".join(create_statements().values()))


def lowered(text: str) -> LoweredQuery:
    (statement,) = parse(text)
    match statement:
        case Select():
            return lower_query(statement, SMALL)
        case CreateView():
            return lower_view(statement, SMALL)
        case Insert():
            if statement.conflict is not None:
                lower_conflict(statement, SMALL)
            return lower_insert(statement, SMALL)
        case Delete():
            return lower_delete(statement, SMALL)
        case Update():
            return lower_update(statement, SMALL)
        case _:
            raise AssertionError(statement)


def run(command: str, text: str) -> str:
    match command.split():
        case ["plan"]:
            bound = lowered(text)
        case ["tpch", number]:
            (statement,) = parse(query_text(int(number)))
            assert isinstance(statement, Select)
            bound = lower_query(statement, TPCH)
        case ["refused"]:
            try:
                lowered(text)
            except Error as error:
                return f"{type(error).__name__}: {error}"
            raise AssertionError(f"not refused: {text}")
        case _:
            raise AssertionError(command)
    plan = rel_text(bound.rel)
    assert parse_plan(plan, relations(bound.rel)) == bound.rel
    return plan


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.test")))
def test_file(name: str, rewrite: bool) -> None:
    check_file(FOLDER / name, run, rewrite=rewrite)
