"""JDBC: the driver that Java's programs use, as they use it every day."""

import subprocess
from pathlib import Path

import pytest

from tests.installed import DRIVER
from tests.unit.server.conftest import serving
from tests.unit.server.programs import run

SOURCES = Path(__file__).parent / "jdbc"
ANSWERS = """\
prepared: [name 1, name 2, name 3, name 4, name 5, name 6, name 7, name 8]
generated: 1
values: 3.50 [a, null, b,c] true null true
batch: 300
view: [1 39, 2 38, 3 38, 4 38, 5 37, 6 37, 7 37, 8 37]
deleted: 1
updated: 1
times: 1999-12-31 2020-02-29T23:59:59 2024-05-06T07:08:09.123Z 06:30
times: 1999-12-31 2020-02-29T23:59:59 2024-05-06T07:08:09.123Z 06:30
meanwhile: 8
pages: 1000 500500
transaction: [100]
valid: true
product: PostgreSQL
schemas: [information_schema, pg_catalog, public]
tables: [pets MATERIALIZED VIEW, owner TABLE, pet TABLE, light VIEW]
columns: [id bigserial 19 0 1 YES, owner int4 10 1 2 NO, weight numeric 10 1 3 NO, born date 13 1 4 NO, \
seen timestamp 29 1 5 NO, at timestamptz 35 1 6 NO, alarm time 15 1 7 NO, tags _text 2147483647 1 8 NO, \
alive bool 1 1 9 NO]
keys: [id pet_pkey 1]
indexes: [pet_pkey f id, by_owner t owner]
imported: [owner id pet owner 0]
exported: [pet owner]
types: true
described: label varchar 20 int4
error: 42601
error: 23505
error: 42P01
timeout: 57014
"""


CACHED = """\
first: 1 x
added: 1 x 7
dropped: 1 7
wider: 1 7
abs: 5
both: 4 y
"""


def java(folder: Path, program: str) -> str:
    """What a Java program prints that is given the address of a new server."""
    subprocess.run(["javac", "-d", str(folder), str(SOURCES / f"{program}.java")], check=True)
    with serving() as running:
        address = f"jdbc:postgresql://127.0.0.1:{running.port}/kpg"
        return run("java", "-cp", f"{DRIVER}:{folder}", program, address)


@pytest.mark.clients("jdbc")
def test_jdbc(tmp_path: Path) -> None:
    assert java(tmp_path, "Everyday") == ANSWERS


@pytest.mark.clients("jdbc")
def test_cached_statements_and_out_parameters(tmp_path: Path) -> None:
    assert java(tmp_path, "Cached") == CACHED
