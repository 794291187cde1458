"""psql's commands that describe things: none fails, and what users have made is listed."""

from collections.abc import Iterator

import pytest

from tests.unit.server.conftest import Running, serving
from tests.unit.server.programs import psql

MADE = """
create table pet (id bigint generated always as identity primary key, weight numeric(10,2), tags text[]);
create materialized view pets as select weight, count(*) as n from pet group by weight;
create view light as select * from pet where weight < 1;
create sequence counted;
create type mood as enum ('sad', 'ok');
create type pair as (a int, b text);
create domain pos as int not null check (value > 0);
create function inc(x int, by int default 1) returns int language sql as 'select x + by';
"""
COMMANDS = r"""
\d \d+ \dS \dt+ \dtS \dt *.* \dv+ \dm+ \ds+ \di+ \df+ \dfa \dfn \dfp \dft \dfS ab* \da sum \dT+ \dTS \dD+ \dn+
\du+ \dg \dp \z \l+ \dd \ddS
\do \doS \dc \dcS \dC+ \dF+ \dFd \dFp \dFt \dL+ \dLS \db+ \dx+ \dy \dRp \dRs \drds
\ddp \dO \dOS \dA+ \dAc \dAf \dAo \dAp \det \des \dew \deu \dE \dP \dX \dl \conninfo \encoding
"""


@pytest.fixture(scope="module")
def made() -> Iterator[Running]:
    with serving() as one:
        assert "ERROR" not in psql(one, text=MADE)
        yield one


def test_none_fails(made: Running) -> None:
    commands = [f"\\{one.strip()}" for one in COMMANDS.split("\\") if one.strip()]
    said = psql(made, text="\n".join(f"\\echo {one.replace(chr(92), '')}\n{one}" for one in commands))
    assert [line for line in said.splitlines() if "ERROR" in line] == []


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (r"\df", ["public|inc|integer|x integer, by integer DEFAULT 1|func"]),
        (r"\dft", []),
        (r"\dT", ["public|mood|", "public|pair|", "public|pos|"]),
        (r"\dT+ mood", ["public|mood|mood|4|sad", "ok|kpg||"]),
        (r"\dD", ["public|pos|integer||not null||CHECK (VALUE > 0)"]),
        (r"\dL", []),
        (
            r"\sf inc",
            [
                "CREATE OR REPLACE FUNCTION public.inc(x integer, by integer DEFAULT 1)",
                " RETURNS integer",
                " LANGUAGE sql",
                "AS $function$select x + by$function$",
            ],
        ),
        (r"\sf inc(int, int)", ["CREATE OR REPLACE FUNCTION public.inc(x integer, by integer DEFAULT 1)"]),
        (r"\sf nothing", ['ERROR:  function "nothing" does not exist']),
    ],
)
def test_what_users_have_made_is_listed(made: Running, command: str, lines: list[str]) -> None:
    shown = psql(made, text=command + "\n").splitlines()
    assert shown[: len(lines)] == lines


def test_what_sf_shows_can_be_run(made: Running) -> None:
    shown = psql(made, text="\\sf inc\n")
    assert psql(made, "-c", shown, "-c", "select inc(1), inc(1, 5)") == "CREATE FUNCTION\n2|6\n"


def test_results_go_into_variables_commands_and_tables(made: Running) -> None:
    text = r"""
select 1 as a, 2 as b \gset
select :a + :b;
select 'select 5' \gexec
select 1 as x, 'a'::text as y, 2.5::numeric(10,2) as z \gdesc
select * from (values ('a','x',1),('a','y',2),('b','x',3)) t(r,c,v) order by 1, 2 \crosstabview
"""
    assert psql(made, text=text).splitlines() == [
        *("3", "5", "x|integer", "y|text", "z|numeric(10,2)", "a|1|2", "b|3|")
    ]
