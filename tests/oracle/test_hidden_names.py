"""A definition means what it meant when it was made, whatever hides its names later: as in Postgres."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kpg
from tests.oracle.postgres import ASKS, Beside, asked_once, serving, statements

FOLDER = Path(__file__).parent / "hidden"
OTHERS = """
    create function far.ok(int) returns boolean language sql as 'select false';
    create function far.bump(int) returns int language sql as 'select -1';
    create function far.later(int) returns int language sql as 'select -5';
    create domain far.small as int check (value < 1000);
    create type far.mood as enum ('x');
"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as address:
        yield address


def script(name: str) -> list[str]:
    return statements((FOLDER / name).read_text())


def temporary(statement: str) -> str:
    """A definition in ``far`` as that of what the session has for itself."""
    for kind in ("table", "view", "sequence"):
        statement = statement.replace(f"create {kind} far.", f"create temp {kind} ")
    return statement.replace("far.", "pg_temp.")


@pytest.mark.parametrize("path", ["far", "far, public", "temporary"])
def test_what_hides_names_changes_no_definition(postgres: str, tmp_path: Path, path: str) -> None:
    """Tables, keys, rules, views, sequences, in a folder that is opened again meanwhile."""
    beside = Beside(postgres, kpg.connect(tmp_path / "db"))
    for statement in script("defined.sql"):
        beside.run(statement)
    beside.db.close()
    beside.db = kpg.connect(tmp_path / "db")
    if path == "temporary":
        for statement in script("hiding.sql"):
            beside.run(temporary(statement))
    else:
        beside.run("drop schema if exists far cascade")
        for statement in ("create schema far", *script("hiding.sql"), *statements(OTHERS)):
            beside.run(statement)
        beside.run(f"set search_path = {path}")
    for statement in script("used.sql"):
        (beside.ask if ASKS.match(statement) else beside.run)(statement)
    beside.close()
    beside.check()


def test_texts_follow_what_is_renamed(postgres: str, tmp_path: Path) -> None:
    beside = Beside(postgres, kpg.connect(tmp_path / "db"))
    for name in ("far", "near", "last"):
        beside.run(f"drop schema if exists {name} cascade")
    for statement in script("followed.sql"):
        if statement == "reopen":
            beside.db.close()
            beside.db = kpg.connect(tmp_path / "db")
        else:
            (beside.ask if ASKS.match(statement) else beside.run)(statement)
    beside.run("drop owned by ann")
    beside.run("drop role ann")
    beside.close()
    beside.check()


@pytest.mark.parametrize(
    "name",
    ["elsewhere.sql", "quoted.sql", "types.sql", "rights.sql", "user.sql", "renamed.sql", "locked_views.sql"],
)
def test_what_is_defined_on_one_path_is_used_on_another(postgres: str, name: str) -> None:
    beside = Beside(postgres)
    beside.run("drop schema if exists far cascade")
    asked_once(beside, (FOLDER / name).read_text())
    beside.close()
    beside.check()
