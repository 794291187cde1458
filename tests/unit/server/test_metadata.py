"""What Java's driver tells of a database, beside what it tells of a real Postgres with the same one."""

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.installed import DRIVER
from tests.oracle.postgres import serving as serving_postgres
from tests.unit.server.conftest import serving
from tests.waiting import PATIENCE

HERE = Path(__file__).parent / "jdbc"
DATABASE = (Path(__file__).parents[2] / "oracle" / "catalogs.sql").read_text()
ROW_TYPES = "relations are types of rows there"
OF_SYSTEM = "columns of catalogs are those of relations there"
DIFFERENT = {
    "getUDTs public": ROW_TYPES,
    "getUDTs other": ROW_TYPES,
    "getUDTs %": ROW_TYPES,
    "getTables of SYSTEM TABLE": "pg_class lists what users have made",
    "getTables of SYSTEM VIEW": "as before",
    "getCatalogs": "there is one database here",
    "select * from pet": "digits of a second are not sent",
    "select 1, 'x', 1.5, null, true, now(), date '2020-01-01', interval '1 day', array[1], 'a'::name, "
    "1::smallint": "a cast to name is text",
    "select sum(weight), avg(weight), max(born), min(name), count(*), string_agg(name, ','), array_agg(id) "
    "from pet": "the least of texts with a length has it, too",
    "select relname, relkind, reltuples, oid, relacl from pg_class": OF_SYSTEM,
    "select table_name, ordinal_position, is_nullable, column_default from information_schema.columns": (
        OF_SYSTEM
    ),
}
"""What has to differ, and why."""


@contextmanager
def forwarding(path: Path) -> Iterator[int]:
    """A port of this machine behind which a socket in the file system is; the driver has no other way."""
    listening = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(path))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(listening):
        yield listening.getsockname()[1]


def told(folder: Path, program: str, port: int, database: str, user: str) -> dict[str, list[str]]:
    """What a program prints, by its headings."""
    address = f"jdbc:postgresql://127.0.0.1:{port}/{database}"
    command = ["java", "-Xmx512m", "-cp", f"{DRIVER}:{folder}", program, address, user]
    command.append(str(HERE / "asked.sql"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    found: dict[str, list[str]] = {}
    heading = ""
    for line in done.stdout.splitlines():
        if line.startswith("## "):
            heading = line[3:]
            found[heading] = []
        else:
            found[heading].append(_same(heading, line))
    return {heading: sorted(lines) for heading, lines in found.items()}


def _same(heading: str, line: str) -> str:
    """A line without what is another in every database: numbers of objects, pages, the name of the role."""
    line = re.sub(r"\bpostgres\b", "kpg", re.sub(r"_\d{4,}\b", "", line))
    line = line.lower() if line.startswith("# ") else line  # names that are not quoted keep their case here
    return re.sub(r"\|\d+\|([^|]*)$", r"|\1", line) if heading.startswith("getIndexInfo") else line


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-d", str(folder), str(HERE / "Metadata.java")], check=True)
    return folder


@pytest.mark.clients("jdbc")
def test_the_driver_tells_the_same(compiled: Path, tmp_path: Path) -> None:
    with serving_postgres(tmp_path) as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("drop schema public cascade; create schema public")
            connection.execute(DATABASE.encode())
        (path,) = tmp_path.glob(".s.PGSQL.*[0-9]")
        with forwarding(path) as port:
            there = told(compiled, "Metadata", port, "postgres", "postgres")
    with serving() as running:
        running.db.sql(DATABASE)
        here = told(compiled, "Metadata", running.port, "kpg", "kpg")
    # Of the types that both have: Postgres has one of rows for each of its own relations.
    both = {line.partition("|")[0] for line in here["getTypeInfo"]}
    assert {"int4", "text", "name", "oid", "mood", "positive", "_numeric"} <= both
    there["getTypeInfo"] = [line for line in there["getTypeInfo"] if line.partition("|")[0] in both]
    assert here.keys() == there.keys()
    assert len(here) > 200
    assert {heading for heading, lines in here.items() if lines != there[heading]} == set(DIFFERENT)
