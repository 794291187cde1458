"""What psql shows of a database, beside what it shows of a real Postgres with the same one."""

import os
import pty
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.oracle.postgres import serving as serving_postgres
from tests.unit.server.conftest import serving
from tests.unit.server.programs import packaged, run

HERE = Path(__file__).parent / "psql"
MADE = (HERE / "made.sql").read_text()
COMMANDS = (HERE / "commands.txt").read_text().splitlines()
DIFFERENT = {
    "views keep their text as it was written": (
        *(r"\d+ light", r"\d+ shop.by_owner", r"\d+ heavy"),
        *(r"\sv light", r"\sv+ light", r"\sv shop.by_owner"),
    ),
    "a table that is UNLOGGED is a table as any other": (r"\d+", r"\dt+", r"\d fast"),
    "there is one collation, by code point, so that no column has one of its own": (r"\dD shop.*",),
    "the role that every database has made what is always there": (r"\du", r"\du+", r"\dg"),
    "nothing is stored apart, so that there is no schema pg_toast": (r"\dnS",),
    "there is one database": (r"\l", r"\l+"),
    "there is no PL/pgSQL": (r"\dx+", r"\dL", r"\dL+"),
    "functions and operators that users have not made take any types that fit: they are listed by name": (
        *(r"\df abs", r"\da sum", r"\do ->", r"\dC int4"),
    ),
    "indexes know no operator classes": (
        *(r"\dAc btree integer", r"\dAf btree", r"\dAo btree integer_ops", r"\dAp btree integer_ops"),
    ),
    "text search has no catalogs": (r"\dF", r"\dFd", r"\dFp"),
    "types of the system are not described": (r"\dT int*",),
    "pg_class lists what users have made": (r"\dS pg_class",),
}
"""What has to differ, and why."""


@dataclass
class Shown:
    """What one server has psql show: of the definitions, and of each command."""

    address: str
    lines: dict[str, list[str]] = field(default_factory=dict)

    def read(self, commands: list[str]) -> None:
        """Make the definitions and run the commands, in one session."""
        script = [MADE]
        for place, command in enumerate(commands):
            script += [f"\\echo @@{place}", f"\\warn @@{place}", command]
        said = run(packaged("psql"), "-X", "-A", "-q", self.address, text="\n".join(script))
        heading = ""
        for line in said.splitlines():
            if line.startswith("@@"):
                heading = commands[int(line[2:])]
            else:
                self.lines.setdefault(heading, []).append(_same(line))


def _same(line: str) -> str:
    """A line without sizes, numbers of temporary schemas, and the role that made the server."""
    line = re.sub(r"\b\d+ (bytes|[kM]B)(?=\||$)", "", line)
    return re.sub(r"\bpostgres\b", "kpg", re.sub(r"\bpg_temp_\d+", "pg_temp", line))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shown, Shown]]:
    with serving_postgres(tmp_path_factory.mktemp("postgres")) as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("create role kpg superuser login createrole createdb replication bypassrls")
            connection.execute("create database kpg owner kpg")
        given = {**conninfo_to_dict(address), "user": "kpg", "dbname": "kpg"}
        with serving() as running:
            yield Shown(make_conninfo(**given)), Shown(running.dsn)


@pytest.fixture(scope="module")
def shown(both: tuple[Shown, Shown]) -> tuple[Shown, Shown]:
    for one in both:
        one.read(COMMANDS)
    return both


def test_nothing_else_differs(shown: tuple[Shown, Shown]) -> None:
    there, here = (one.lines for one in shown)
    differing = {one for one in ("", *COMMANDS) if there.get(one) != here.get(one)}
    expected = {one for listed in DIFFERENT.values() for one in listed}
    assert {one: (there.get(one), here.get(one)) for one in differing - expected} == {}
    assert differing == expected
    assert len(COMMANDS) > 140


TYPED = (
    *("select * from pe", "select * from shop.", "insert into ", "update pet set ", "delete from o"),
    *("select * from pet where w", "drop view ", "drop table sh", "drop sequence ", "drop index by_"),
    *("alter table pet drop constraint ", "alter table pet alter column ", "comment on column pet."),
    *("alter type moo", "alter domain ", "drop function shop.", "drop materialized view "),
    *(
        "refresh materialized view ",
        "drop schema sh",
        "alter role b",
        "grant clerk to b",
        "create index on pet (",
        r"\d pe",
    ),
    *(r"\d shop.", r"\df shop.", r"\dT moo", r"\dn s", r"\du b", r"\sf inc", r"\sv l", "set search_path to "),
    *("alter table pet rename column ", "drop trigger ", "drop trigger watched on ", "drop policy own on "),
    *("truncate p", "lock table p", "analyze p", "copy p", "drop type shop.", 'select * from "O'),
    *("alter table part detach partition ", "alter sequence co", "drop aggregate tot", "execute r"),
)
"""What is typed before the key that completes."""
KEYS = "set show-all-if-ambiguous on\nset completion-query-items 0\nset page-completions off\n" + (
    "set enable-bracketed-paste off\nset bell-style none\nset completion-display-width 0\n"
)


PROMPT = "=@= "


def completed(address: str, folder: Path) -> dict[str, list[str]]:
    """What psql completes of each text, by its own queries: it is at a terminal, as for people."""
    program = shutil.which("psql")
    assert program is not None, "of this machine, with readline"
    (folder / "keys").write_text(KEYS)
    environment = {**os.environ, "INPUTRC": str(folder / "keys"), "TERM": "dumb", "PSQL_HISTORY": "/dev/null"}
    number, terminal = pty.fork()
    if not number:
        os.execve(program, [program, "-X", "-q", "-v", f"PROMPT1={PROMPT}", address], environment)
    said, found = "", dict[str, list[str]]()

    def awaited(end: str) -> str:
        nonlocal said
        while end not in said:
            said += os.read(terminal, 1 << 16).decode()
        before, _, said = said.partition(end)
        return before

    try:
        awaited(PROMPT)
        for text in TYPED:
            os.write(terminal, f"{text}\t\x15\\echo done\n".encode())
            lines = re.sub(r"[\b\x07]|\x1b\[\S*", "", awaited("\r\ndone\r\n")).replace("\r", "\n")
            words = (one.replace(PROMPT.strip(), "").strip() for one in lines.splitlines())
            found[text] = sorted({one for one in words if one and "echo done" not in one} - {text.strip()})
            awaited(PROMPT)
    finally:
        os.close(terminal)
        os.waitpid(number, 0)
    return found


@pytest.mark.clients("psql")
def test_names_are_completed_alike(
    both: tuple[Shown, Shown], shown: tuple[Shown, Shown], tmp_path: Path
) -> None:
    there, here = (completed(one.address, tmp_path) for one in both)
    assert here == there
    assert "shop.sale" in there["select * from shop."]
