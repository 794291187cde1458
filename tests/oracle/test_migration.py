"""Databases go from kpg to Postgres and from Postgres to kpg by pg_dump and psql, and are the same there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.oracle.postgres import serving as postgres_serving
from tests.unit.server.conftest import serving
from tests.unit.server.programs import packaged, run

SETUP = (Path(__file__).parent / "migrated.sql").read_text()


@dataclass
class Two:
    """Addresses of a kpg and of a Postgres."""

    kpg: str
    postgres: str


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with serving() as one, postgres_serving(tmp_path_factory.mktemp("postgres")) as address:
        folder = address.partition("host=")[2]
        psql(f"host={folder} user=postgres dbname=postgres", "create role kpg superuser login;")
        yield Two(one.dsn, f"host={folder} user=kpg")


def psql(address: str, text: str) -> str:
    """What psql says to a script."""
    return run(packaged("psql"), "-X", "-q", address, text=text)


def made(two: Two, name: str, text: str) -> str:
    """A new database of the Postgres in which a script has run; its address."""
    create = f"create database {name} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C.UTF-8';"
    assert psql(f"{two.postgres} dbname=postgres", create) == ""
    address = f"{two.postgres} dbname={name}"
    said = psql(address, f"alter schema public owner to kpg;\n{text}")
    assert "ERROR" not in said, said
    return address


def dumped(address: str) -> str:
    """All that pg_dump writes that is the same of every server, but for its order."""
    text = run(packaged("pg_dump"), address)
    assert "pg_dump: error" not in text, text
    return text


def compared(text: str) -> list[str]:
    """The lines of a dump in an order of their own: what does not need each other has none."""
    left_out = ("--", "ALTER SCHEMA public", "\\restrict", "\\unrestrict")
    return sorted(line for line in text.splitlines() if line and not line.startswith(left_out))


@pytest.fixture(scope="module")
def sides(two: Two) -> dict[str, str]:
    """The same script run in both."""
    assert psql(two.kpg, SETUP) == ""
    return {"kpg": two.kpg, "postgres": made(two, "side", SETUP)}


def test_a_dump_of_kpg_makes_the_same_postgres(two: Two, sides: dict[str, str]) -> None:
    back = made(two, "back", dumped(sides["kpg"]))
    assert compared(dumped(back)) == compared(dumped(sides["postgres"]))


def test_a_dump_of_postgres_makes_the_same_kpg(sides: dict[str, str]) -> None:
    dump = dumped(sides["postgres"])
    with serving() as other:
        said = psql(other.dsn, dump)
        assert "ERROR" not in said, said
        again = dumped(other.dsn)
        with serving() as third:
            assert "ERROR" not in psql(third.dsn, again)
            assert compared(dumped(third.dsn)) == compared(again)
    assert compared(again) == compared(dump)
