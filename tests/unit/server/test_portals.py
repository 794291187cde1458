"""Names of prepared statements and portals, which SQL and messages share; Queries among other messages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.postgres import serving
from tests.unit.server.conftest import Running
from tests.unit.server.messages import SYNC, Messages, bind, closed, described, execute, parse, query

MADE = (
    "drop table if exists t cascade",
    "create table t (a int primary key, b text)",
    "insert into t select x, 'v' || x from generate_series(1, 9) g(x)",
    "create view v as select a from t",
)
CUR = "select name, statement, is_holdable, is_binary, is_scrollable from pg_cursors order by 1"
PREP = "select name, statement, from_sql from pg_prepared_statements order by 1"
READ = parse("s", "select a from t order by a")
PREPARED = [
    [
        [parse("s", "select a,b from t where a=$1"), SYNC],
        [query("execute s(3)")],
        [query(PREP)],
        [query("prepare s as select 1")],
        [query("deallocate s")],
        [query(PREP)],
        [bind("", "s", [1]), SYNC],
    ],
    [
        [query("prepare s(int) as select a,b from t where a=$1")],
        [described("S", "s"), bind("", "s", [2]), described("P", ""), execute(""), SYNC],
        [parse("s", "select 1"), SYNC],
        [closed("S", "s"), SYNC],
        [query("execute s(1)")],
        [query(PREP)],
    ],
    [
        [query("prepare s as select b from t where a=$1")],
        [bind("", "s", [2]), execute(""), SYNC],
        [bind("", "s", [2]), execute(""), SYNC],
        [bind("", "s", [3]), execute(""), SYNC],
        [query("deallocate s")],
        [bind("", "s", [2]), execute(""), SYNC],
    ],
    [
        [parse("S", "select 1"), SYNC],
        [query("execute s")],
        [query('execute "S"')],
        [query(PREP)],
        [query('deallocate "S"')],
        [bind("", "S"), SYNC],
    ],
    [
        [
            parse("s1", "select $1::text"),
            parse("s2", "insert into t values ($1,$2)"),
            parse("s3", "begin"),
            parse("", "select 7"),
            SYNC,
        ],
        [query(PREP)],
        [query("execute s2(50,'x')")],
        [query("execute s1('k')")],
        [query("discard all")],
        [query(PREP)],
        [bind("", "s1", [1]), SYNC],
    ],
    [[parse("s1", "select $1::text", [25]), SYNC], [query("deallocate all")], [bind("", "s1", [1]), SYNC]],
    [
        [parse("s1", "select 5"), SYNC],
        [query("begin")],
        [query("select 1/0")],
        [query("deallocate s1")],
        [query("rollback")],
        [query("execute s1")],
    ],
    [[parse("s1", "update t set b=$2 where a=$1 returning b"), SYNC]],
    [
        [query("prepare x(int,text) as insert into t values ($1,$2)")],
        [bind("", "x", [70, "q"]), execute(""), SYNC],
        [bind("", "x", [71]), SYNC],
        [described("S", "x"), SYNC],
    ],
    [
        [query("prepare x as select $1")],
        [described("S", "x"), SYNC],
        [parse("y", "select $1"), SYNC],
        [query(PREP)],
    ],
    [[parse("", "select 1"), SYNC], [query("select 2")], [bind("", ""), execute(""), SYNC]],
]
PORTALS = [
    [
        [query("begin")],
        [READ, bind("p", "s"), execute("p", 2), SYNC],
        [query(CUR)],
        [query("fetch 2 from p")],
        [execute("p", 1), SYNC],
        [query("move 1 from p")],
        [query("fetch all p")],
        [execute("p", 1), SYNC],
        [query("close p")],
        [execute("p", 1), SYNC],
    ],
    [
        [query("begin")],
        [READ, bind("p", "s"), SYNC],
        [query("fetch next from p")],
        [query("fetch prior from p")],
        [query("fetch next from p")],
    ],
    [
        [query("begin")],
        [READ, bind("p", "s"), SYNC],
        [query("fetch absolute 3 from p")],
        [query("fetch relative 2 from p")],
        [query("fetch first from p")],
    ],
    [[query("begin")], [READ, bind("p", "s"), SYNC], [query("fetch last from p")], [query("rollback")]],
    [
        [query("begin")],
        [READ, bind("p", "s"), SYNC],
        [query("fetch 0 from p")],
        [query("fetch 1 from p")],
        [query("fetch 0 from p")],
    ],
    [
        [query("begin")],
        [READ, bind("p", "s"), SYNC],
        [query("declare p cursor for select 1")],
        [query("rollback")],
    ],
    [
        [query("begin")],
        [query("declare c cursor for select a from t order by a")],
        [described("P", "c"), execute("c", 2), SYNC],
        [query("fetch 1 from c")],
        [execute("c", 2), SYNC],
        [execute("c"), SYNC],
        [execute("c"), SYNC],
        [READ, bind("c", "s"), SYNC],
    ],
    [
        [query("begin; declare c cursor for select a from t order by a")],
        [closed("P", "c"), SYNC],
        [query("fetch c")],
        [query("commit")],
    ],
    [
        [query("begin")],
        [query("declare c cursor with hold for select a from t order by a")],
        [query("commit")],
        [execute("c", 2), SYNC],
        [query(CUR)],
        [query("fetch 1 from c")],
        [execute("c", 1), SYNC],
        [closed("P", "c"), SYNC],
        [query(CUR)],
    ],
    [
        [query("begin; declare c scroll cursor for select a from t order by a")],
        [execute("c", 3), SYNC],
        [query("fetch prior c")],
        [execute("c", 1), SYNC],
        [query("close all")],
        [execute("c", 1), SYNC],
    ],
    [
        [query("begin")],
        [READ, bind("p", "s"), bind("q", "s"), SYNC],
        [query(CUR)],
        [query("close all")],
        [execute("p"), SYNC],
        [query("rollback")],
        [query(CUR)],
    ],
    [
        [query("begin")],
        [parse("i", "insert into t values (100,'x')"), bind("p", "i"), SYNC],
        [query("fetch p")],
        [query("rollback")],
    ],
    [
        [query("begin")],
        [
            parse("i", "insert into t values (101,'x'),(102,'y') returning a"),
            bind("p", "i"),
            execute("p", 1),
            SYNC,
        ],
        [query("fetch p")],
        [query("fetch p")],
        [query("select count(*) from t")],
        [query("rollback")],
    ],
    [[READ, bind("p", "s"), execute("p", 2), SYNC], [query(CUR)], [query("fetch p")]],
    [
        [query("begin")],
        [READ, bind("P", "s"), SYNC],
        [query("fetch P")],
        [query('fetch "P"')],
        [query("rollback")],
    ],
]
BETWEEN = [
    [
        [
            parse("", "insert into t values (200,'x')"),
            bind("", ""),
            execute(""),
            query("select count(*) from t"),
            SYNC,
        ],
        [query("rollback")],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query("select 1/0"), SYNC],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query("rollback"), SYNC],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query("begin"), SYNC],
        [query("rollback")],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query("commit"), SYNC],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query(""), SYNC],
        [query("select count(*) from t")],
    ],
    [
        [
            parse("", "insert into t values (200,'x')"),
            bind("", ""),
            execute(""),
            query("select 1; select 2"),
            SYNC,
        ],
        [query("select count(*) from t")],
    ],
    [
        [
            parse("", "insert into t values (200,'x')"),
            bind("", ""),
            execute(""),
            query("copy (select 5) to stdout"),
            SYNC,
        ],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query("sel"), SYNC],
        [query("select count(*) from t")],
    ],
    [
        [parse("", "insert into t values (200,'x')"), bind("", ""), execute(""), query("savepoint z"), SYNC],
        [query("select count(*) from t")],
    ],
    [
        [
            parse("", "insert into t values (200,'x')"),
            bind("", ""),
            execute(""),
            query("select 1"),
            bind("", ""),
            execute(""),
            SYNC,
        ],
        [query("select count(*) from t")],
    ],
    [
        [
            parse("a", "insert into t values (200,'x')"),
            bind("", "a"),
            execute(""),
            query("select 1"),
            parse("b", "insert into t values (200,'y')"),
            bind("", "b"),
            execute(""),
            SYNC,
        ],
        [query("select count(*) from t")],
    ],
    [[READ, bind("p", "s"), execute("p", 2), query("select 1"), execute("p", 1), SYNC]],
    [[READ, bind("p", "s"), execute("p", 2), query("fetch 1 from p"), SYNC]],
    [[READ, bind("p", "s"), execute("p", 9), execute("p", 1), SYNC]],
    [[READ, bind("p", "s"), execute("p", 10), SYNC]],
]
BETWEEN += [
    [
        [parse("", "begin"), bind("", ""), execute(""), SYNC],
        [parse("", "insert into t values (300, 'x')"), bind("", ""), execute(""), SYNC],
        [parse("", end), bind("", ""), execute(""), SYNC],
    ]
    for end in ("commit", "rollback", "abort", "end")
]
IN_USE = [
    [[query("begin")], [query(opens)], [query(change)], [query("rollback")]]
    for opens in ("declare c cursor for select a from t", "declare c cursor for select 1 from v where a > 5")
    for change in (
        "truncate t",
        "alter table t add column c int",
        "create index on t (b)",
        "alter table t rename column b to c",
        "comment on table t is 'x'",
        "drop view v",
    )
] + [
    [
        [query("begin")],
        [READ, bind("p", "s"), execute("p"), SYNC],
        [query("truncate t")],
        [query("rollback")],
    ],
    [
        [query("begin")],
        [READ, bind("p", "s"), SYNC, closed("P", "p"), SYNC],
        [query("truncate t")],
        [query("rollback")],
    ],
    [[READ, bind("p", "s"), execute("p"), SYNC], [query("truncate t")]],
]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(Path(tmp_path_factory.mktemp("postgres"))) as address:
        yield address


@pytest.mark.parametrize("steps", [*PREPARED, *PORTALS, *BETWEEN, *IN_USE])
def test_messages_are_answered_as_by_postgres(
    postgres: str, running: Running, steps: list[list[bytes]]
) -> None:
    found = []
    for address in (postgres, running.port):
        client = Messages(address)
        for text in MADE:
            client.ask([query(text)])
        found.append([client.ask(step) for step in steps])
        client.close()
    assert found[1] == found[0]


def test_types_of_parameters_are_listed(running: Running) -> None:
    client = Messages(running.port)
    client.ask([query("create table if not exists typed (a int, b text)")])
    client.ask([parse("x", "insert into typed values ($1, $2)"), parse("y", "select $1", [20]), SYNC])
    asked = "select name, parameter_types, from_sql from pg_prepared_statements order by 1"
    assert client.ask([query(asked)])[1:3] == ["D x|{integer,text}|f", "D y|{bigint}|f"]
    client.close()
