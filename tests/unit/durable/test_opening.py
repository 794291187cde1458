"""A database that is opened again is what it was; a folder that is none is refused and not touched."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import kpg
from kpg.persistence.write_ahead_log import WriteAheadLog
from kpg.runtime.storage.log import segment_name
from kpg.session import base_table as table_module
from tests.model.disk import Sim
from tests.model.durable import contents, opened

SCRIPTS = {
    "written": """
        create table t (a int primary key, b int, c int[]); insert into t values (1, 2, '{1}'), (3, 4, null);
        create function plus(x int, y int default 5) returns int language sql return x + y;
        create function above(low int) returns setof t language sql as 'select * from t where a >= low';
        create view shown as select a, b from t where a > 0 with check option;
        create view names as select relname from pg_class where relkind = 'r';
        create materialized view m as select plus(a) p, (select count(*) from above(a)) n from t;
        insert into shown values (5, 6); update t set c[2] = 9; delete from shown where a = 3;
        insert into t values (1, 1) on conflict (a) do update set b = (select max(b) from t);
        insert or replace into t values (5, 33, null), (6, 1, '{}');
    """,
    "tables": """
        create table t (id int primary key, name text not null, v numeric default 1.5 check (v > 0), d date);
        insert into t values (1, 'one', 2, '2024-01-01'), (2, 'two', 3, null);
        insert into t (id, name) values (3, 'three');
        update t set name = 'deux' where id = 2;
        delete from t where id = 1;
        create table empty (a int, b text);
    """,
    "constraints": """
        create table a (id int generated always as identity primary key, code text unique, n int unique);
        create table b (id serial primary key, a int references a (id) on delete cascade,
            twice int generated always as (2 * a) stored, unique (a, twice));
        insert into a (code, n) values ('x', 1), ('y', null), ('z', null);
        insert into b (a) values (1), (2);
        delete from a where id = 2;
    """,
    "views": """
        create table t (g int, v int);
        insert into t values (1, 10), (1, 20), (2, 5), (null, 7);
        create view plain as select g, v from t where v > 5;
        create materialized view sums as select g, sum(v) s, count(*) n from plain group by g;
        create materialized view over as select s.g, t.v from sums s join t on t.g = s.g order by t.v desc;
        create or replace view plain2 as select * from over where v > 1;
        create materialized view top as select g, v from t order by v desc, g limit 2;
        insert into t values (2, 50);
        create materialized view deep as
            with recursive r(x) as (select 1 union select x + 1 from r where x < 4) select x from r;
    """,
    "schemas": """
        create schema s; create table s.t (a int); insert into s.t values (1);
        create view s.v as select a + 1 b from s.t; create materialized view s.m as select b from s.v;
        create type mood as enum ('sad', 'ok', 'happy');
        create table m (who text, how mood); insert into m values ('x', 'ok'), ('y', 'sad');
        create materialized view moods as select how, count(*) n from m group by how;
        comment on table m is 'moods'; comment on column m.how is 'which';
        create sequence n start 5 increment 3; select nextval('n'); select nextval('n');
    """,
    "altered": """
        create table t (a int, b text); insert into t values (1, 'x'), (2, 'y');
        create materialized view v as select a, b from t;
        alter table t add column c int default 7;
        alter table t rename column b to name;
        insert into t values (3, 'z', 1);
        alter table t alter column a set not null;
        alter table t add constraint positive check (a > 0);
        alter table t rename to u;
        create index by_name on u (name);
        create unique index by_a on u (a);
        create table gone (x int); insert into gone values (1); drop table gone;
        create table t (x int); insert into t values (9);
        alter table t add column y text default 'y'; alter table t drop column x;
    """,
    "transactions": """
        create table t (a int primary key, b text);
        begin; insert into t values (1, 'a'); savepoint s; insert into t values (2, 'b');
        delete from t where a = 1; rollback to s; insert into t values (3, 'c'); commit;
        begin; insert into t values (4, 'd'); create table u (x int); rollback;
        begin; insert into t values (5, 'e'); delete from t where a = 5;
        insert into t values (5, 'f'); commit;
        begin; create table w (x int); insert into w values (1);
        create materialized view m as select sum(x) s from w; commit;
        insert into t values (3, 'again') on conflict (a) do update set b = excluded.b;
        insert into t values (3, 'not') on conflict do nothing;
        truncate w; insert into w values (2);
    """,
    "functions": """
        create function double(x int) returns int language sql as 'select 2 * x';
        create table t (a int); insert into t values (1), (2);
        create materialized view v as select double(a) d from t;
    """,
    "times": """
        create table t (at timestamptz, what text);
        insert into t values ('2024-01-01 00:00+00', 'old'), ('2999-01-01 00:00+00', 'new');
        create materialized view recent as select what from t where at > now();
        insert into t values ('2998-01-01 00:00+00', 'later');
    """,
    "values": """
        create table t (a boolean, b double precision, c numeric(20, 5), d timestamp, e interval, f jsonb,
            g int[], h text, i bigint, j uuid, k bytea);
        insert into t values (true, 1.5, 12345.67891, '2024-02-03 04:05:06', '1 month 2 days',
            '{"a": [1, null]}', '{1,2,null}', 'ä''ö',
            9223372036854775807, '00000000-0000-0000-0000-000000000001', '\\x00ff'),
            (null, null, null, null, null, null, null, null, null, null, null);
        create materialized view v as select f, g, count(*) n from t group by f, g;
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_was_there_is_there_again(name: str) -> None:
    sim = Sim()
    db = opened(sim)
    db.sql(SCRIPTS[name])
    killed = sim.after_kill()
    expected = contents(db)
    db.close()
    for files in (killed, sim, sim):
        again = opened(files)
        assert same(name, contents(again), expected)
        again.close()


def same(name: str, one: dict[str, object], other: dict[str, object]) -> bool:
    """Epochs of the clock's ticks are where somebody looked."""
    if name == "times":
        del one["epoch"]
        other = {key: value for key, value in other.items() if key != "epoch"}
    assert one == other
    return True


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_goes_on_as_if_it_had_never_ended(name: str) -> None:
    """Every statement in a life of its own, beside a database that lives through all of them."""
    sim, beside = Sim(), kpg.connect()
    text = SCRIPTS[name]
    for statement in [text] if "begin;" in text else text.split(";\n"):
        if statement.strip():
            beside.sql(statement)
            with opened(sim) as db:
                db.sql(statement)
    with opened(sim) as db:
        assert same(name, contents(db), contents(beside))


def test_constraints_hold_in_the_next_life() -> None:
    sim = Sim()
    with opened(sim) as db:
        db.sql(SCRIPTS["constraints"])
    db = opened(sim)
    for wrong, message in (
        ("insert into a (code) values ('x')", "duplicate key"),
        ("insert into b (a) values (77)", "violates FOREIGN KEY|is not in|foreign key"),
        ("insert into b (id, a) values (1, 3)", "duplicate key"),
    ):
        with pytest.raises(kpg.IntegrityError, match=f"(?i){message}"):
            db.sql(wrong)
    db.sql("insert into a (code) values ('new'); delete from a where id = 1")
    assert db.query("select max(id) from a").fetchall() == [(5,)]
    assert db.query("select count(*) from b").fetchall() == [(0,)]


def test_python_makes_the_same_records() -> None:
    sim = Sim()
    db = opened(sim)
    db.create_table("t", {"a": [1, 2, 3], "b": ["x", None, "z"]}, primary_key=["a"])
    db.insert("t", [(4, "w")])
    db.upsert("t", [(1, "changed")])
    db.delete("t", [(2,)])
    with db.batch():
        db.insert("t", [(5, "v")])
        db.sql("delete from t where a = 4")
        db.sql("insert into t values (4, 'again')")
    with db.transaction():
        db.insert("t", [(6, "u")])
    db.advance_to("2100-01-01")
    expected, epoch = contents(db), db.epoch
    db = opened(sim.after_kill())
    assert contents(db) == expected
    assert db.epoch == epoch
    assert [str(one)[:10] for (one,) in db.query("select now()").fetchall()] == ["2100-01-01"]
    assert sorted(db.query("select * from t").fetchall()) == [
        (1, "changed"), (3, "z"), (4, "again"), (5, "v"), (6, "u"),
    ]  # fmt: skip


def test_files_are_loaded_once_and_kept(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("a,b\n" + "".join(f"{n},{n % 7}\n" for n in range(5000)))
    folder = tmp_path / "db"
    with kpg.connect(folder) as db:
        db.sql("create table t (a int, b int)")
        db.load("t", str(source))
        db.sql(f"create table u (a int, b int); copy u from '{source}' (header)")
        db.sql(f"create materialized view v as select b, count(*) n from '{source}' group by b")
        assert db.query(f"select count(*) from '{source}'").fetchall() == [(5000,)]
        expected = contents(db)
    source.unlink()
    with kpg.connect(str(folder)) as db:
        assert contents(db) == expected
        assert db.query("select sum(n) from v").fetchall() == [(5000,)]


def test_datalog_lives_on() -> None:
    sim = Sim()
    db = opened(sim)
    db.sql("create table link (a int, b int); insert into link values (3, 4)")
    program = db.datalog(
        """
        .decl edge(a: number, b: number) .input edge
        .decl tc(a: number, b: number) .output tc
        .decl unused(a: number)
        edge(1, 2). edge(2, 3).
        tc(a, b) :- edge(a, b). tc(a, b) :- link(a, b). tc(a, c) :- tc(a, b), tc(b, c).
        unused(a) :- edge(a, _).
        ?- tc(1, x).
        """
    )
    program.extend(".decl more(a: number) .output more\nmore(a) :- tc(a, 5).")
    db.sql("create materialized view n as select count(*) n from tc; insert into edge values (4, 5)")
    db.datalog("+edge(5, 6).")
    expected = contents(db)
    db = opened(sim.after_kill())
    assert contents(db) == expected
    assert sorted(db.view("tc").fetchall()) == [(a, b) for a in range(1, 6) for b in range(a + 1, 7)]
    assert sorted(db.query("select * from more").fetchall()) == [(1,), (2,), (3,), (4,)]
    with db.prepare("?- tc($from, x).") as goal:
        assert len(goal(**{"from": 2})) == 4
    db.sql("delete from edge where a = 1")
    assert db.query("select n from n").fetchall() == [(10,)]
    with pytest.raises(kpg.ProgrammingError, match="Datalog program 1"):
        db.sql("drop table edge")


def test_a_dropped_program_is_gone() -> None:
    sim = Sim()
    db = opened(sim)
    with db.datalog(".decl p(x: number)\n.output p\np(1)."):
        pass
    db = opened(sim.after_kill())
    assert db.tables().fetchall() == []
    assert db.views().fetchall() == []


def test_temporary_tables_end_with_the_session() -> None:
    sim = Sim()
    with opened(sim) as db:
        db.sql("create temp table t (a int); insert into t values (1); create table u (a int)")
        assert db.query("select * from t").fetchall() == [(1,)]
    with opened(sim) as db:
        assert db.tables().fetchall() == [("u", 0)]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    with pytest.raises(
        kpg.OperationalError,
        match=rf"is in use by process {os.getpid()} on .*, which is this one\n.*read_only=True",
    ):
        kpg.connect(tmp_path / "db")
    db.sql("create table t (a int); insert into t values (1)")
    reader = kpg.connect(tmp_path / "db", read_only=True)
    assert reader.query("select * from t").fetchall() == [(1,)]
    with pytest.raises(kpg.OperationalError, match="was opened with read_only=True"):
        reader.sql("insert into t values (2)")
    with pytest.raises(kpg.OperationalError, match="was opened with read_only=True"):
        reader.sql("create table u (a int)")
    assert reader.query("select count(*) from t").fetchall() == [(1,)]
    assert reader.tables().fetchall() == [("t", 1)]
    db.sql("insert into t values (3)")
    db.close()
    with kpg.connect(tmp_path / "db") as db:
        assert db.query("select count(*) from t").fetchall() == [(2,)]


def test_what_nobody_has_any_more_is_not_in_the_way(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql("create table t (a int)")
    del db
    assert kpg.connect(tmp_path / "db").tables().fetchall() == [("t", 0)]


def test_folders_that_are_no_databases(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("x")
    with pytest.raises(kpg.OperationalError, match="is a file"):
        kpg.connect(tmp_path / "file")
    with pytest.raises(kpg.OperationalError, match="is no database of kpg: it has other files"):
        kpg.connect(tmp_path / "other")
    with pytest.raises(kpg.OperationalError, match="does not exist"):
        kpg.connect(tmp_path / "none", read_only=True)
    with pytest.raises(kpg.OperationalError, match="is no database of kpg"):
        kpg.connect(tmp_path / "other", read_only=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "other"]
    assert [one.name for one in (tmp_path / "other").iterdir()] == ["letter.txt"]
    with pytest.raises(kpg.InterfaceError, match='there is no mode "sometimes"'):
        kpg.connect(tmp_path / "new", synchronous="sometimes")
    assert not (tmp_path / "new").exists()
    with pytest.raises(kpg.OperationalError, match=r"file/db cannot be made: Not a directory$"):
        kpg.connect(tmp_path / "file" / "db")


def test_names_that_mean_something_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        kpg.InterfaceError, match=r":memory: is no folder\nhint: kpg.connect\(\) is a database"
    ):
        kpg.connect(":memory:")
    with pytest.raises(kpg.InterfaceError, match=r"postgresql://localhost/shop is no folder"):
        kpg.connect("postgresql://localhost/shop")
    with pytest.raises(kpg.InterfaceError, match="read_only is for a database in a folder"):
        kpg.connect(read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_or_foreign_log() -> None:
    sim = Sim()
    with opened(sim) as db:
        db.sql("create table t (a int)")
    missing = sim.after_kill()
    missing.remove(segment_name(2))
    with pytest.raises(kpg.OperationalError, match="sim/log-00000002 is missing"):
        opened(missing)
    other = Sim()
    with opened(other) as db:
        db.sql("create table t (a int)")
    foreign = sim.after_kill()
    foreign.names[segment_name(2)].now[:] = other.names[segment_name(2)].now
    with pytest.raises(kpg.OperationalError, match="is a log of another database"):
        opened(foreign)


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack that a log names, as a killed process has left them: behind the log's records is room."""
    monkeypatch.setattr("kpg.persistence.write_ahead_log.MIN_PACK_BYTES", 512)
    folder = tmp_path / "db"
    with kpg.connect(folder.with_name("whole")) as db:
        db.sql("create table t (a int primary key); insert into t select * from generate_series(1, 500)")
        db.sql("insert into t values (501)")
        shutil.copytree(folder.with_name("whole"), folder)
    return next(one for one in folder.iterdir() if one.name.startswith("pack-"))


def test_what_cannot_be_opened_is_left_as_it_is(packed: Path) -> None:
    written = bytearray(packed.read_bytes())
    written[100] ^= 1
    packed.write_bytes(written)
    before = {one.name: one.read_bytes() for one in packed.parent.iterdir() if one.name != "lock"}
    with pytest.raises(kpg.OperationalError, match=f"{packed.name} is damaged at byte 0"):
        kpg.connect(packed.parent)
    assert {one.name: one.read_bytes() for one in packed.parent.iterdir() if one.name != "lock"} == before


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_pack_that_is_no_file_is_named(make: Callable[[Path], None], packed: Path) -> None:
    """A pipe above all, which would wait for somebody who writes to it."""
    packed.unlink()
    make(packed)
    with pytest.raises(kpg.OperationalError, match=f"db/{packed.name} cannot be opened: it is no file"):
        kpg.connect(packed.parent)


def test_a_log_that_is_empty_is_damaged(packed: Path) -> None:
    (packed.parent / segment_name(1)).write_bytes(b"")
    with pytest.raises(kpg.OperationalError, match="log-00000001 is damaged at byte 0: it has no header"):
        kpg.connect(packed.parent)


def test_a_newer_format_is_refused_by_name() -> None:
    sim = Sim()
    opened(sim).close()
    sim.names["manifest"].now[8] = 9
    with pytest.raises(kpg.OperationalError, match="sim/manifest has format 9, and this kpg knows"):
        opened(sim)


def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    code = (
        "import mmap, os, kpg, sys\n"
        f"db = kpg.connect({str(tmp_path / 'db')!r}); db.sql('create table t (a int)'); db.close()\n"
        # Everything is imported while it may be read.
        f"kpg.connect({str(tmp_path / 'db')!r}, read_only=True).tables().fetchall()\n"
        f"os.chmod({str(tmp_path / 'db')!r}, 0o555)\n"
        f"os.chdir({str(tmp_path / 'db')!r}); [os.chmod(one, 0o444) for one in os.listdir('.')]\n"
        "os.setuid(65534) if os.getuid() == 0 else None\n"
        f"try: kpg.connect({str(tmp_path / 'db')!r})\n"
        "except kpg.OperationalError as error: print(error)\n"
        f"print(kpg.connect({str(tmp_path / 'db')!r}, read_only=True).tables().fetchall())\n"
    )
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(0o755)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot be opened: Permission denied" in found.stdout, found.stderr
    assert "[('t', 0)]" in found.stdout, found.stderr


def triple(x: int) -> int:
    return 3 * x


class Product:
    def initialize(self) -> int:
        return 1

    def add(self, state: int, value: int) -> int:
        return state * value

    def finish(self, state: int) -> int:
        return state


def test_functions_of_modules_are_imported_again() -> None:
    sim = Sim()
    db = opened(sim)
    db.create_function("triple", triple)
    db.create_function("times_all", Product)
    db.sql("create table t (a int); insert into t values (2), (5)")
    db.sql("create materialized view v as select triple(a) x from t")
    db.sql("create materialized view w as select times_all(a) p from t")
    db.create_function("never", triple)
    db.drop_function("never")
    db = opened(sim.after_kill())
    db.sql("insert into t values (7)")
    assert sorted(db.query("select * from v").fetchall()) == [(6,), (15,), (21,)]
    assert db.query("select * from w").fetchall() == [(70,)]
    assert db.query("select triple(4)").fetchall() == [(12,)]
    with pytest.raises(kpg.ProgrammingError, match='view "v" uses it'):
        db.drop_function("triple")
    with pytest.raises(kpg.ProgrammingError, match="never"):
        db.query("select never(1)")


def test_nothing_is_imported_where_functions_are_given() -> None:
    sim = Sim()
    with opened(sim) as db:
        db.create_function("triple", triple)
        db.sql("create materialized view v as select triple(2) x")
    with pytest.raises(kpg.OperationalError, match="function triple, which v uses, has to be given again"):
        opened(sim, functions={})
    with opened(sim, functions={"triple": lambda x: 30 * x}) as db:
        assert db.query("select x from v").fetchall() == [(60,)]


def test_functions_without_a_module_are_given_each_time() -> None:
    sim = Sim()
    db = opened(sim)
    with pytest.raises(kpg.NotSupportedError, match="function plus cannot be kept in a folder"):
        db.create_function("plus", lambda x: x + 1, [int], int)
    db.close()
    db = opened(sim, functions={"plus": lambda x: x + 1})
    db.create_function("plus", lambda x: x + 1, [int], int)
    db.sql("create table t (a int); insert into t values (1)")
    db.sql("create materialized view v as select plus(a) b from t")
    db.close()
    with pytest.raises(kpg.OperationalError) as caught:
        opened(sim)
    sim.holder = None
    assert str(caught.value).splitlines() == [
        "function plus, which v uses, has to be given again",
        "hint: kpg.connect(folder, functions={'plus': ...})",
    ]
    db = opened(sim, functions={"plus": lambda x: x + 1})
    db.sql("insert into t values (5)")
    assert sorted(db.query("select * from v").fetchall()) == [(2,), (6,)]


def test_dataflows_are_refused() -> None:
    with pytest.raises(kpg.NotSupportedError, match="a dataflow in a durable database is not supported"):
        opened(Sim()).dataflow()


def test_numbers_are_as_they_were() -> None:
    """Codes of strings and rowids too: what refers to them may outlive the process."""
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (a int primary key, b text)")
    for n in range(30):
        db.sql(f"insert into t values ({n}, 'text {n % 7}')")
        db.query(f"select 'other {n}'")
        with db.transaction():
            db.sql(f"insert into t values ({100 + n}, 'x'); delete from t where a = {100 + n}")
        if n % 3 == 0:
            db.sql(f"delete from t where a = {n}")
    worker = db._engine.executor
    rowids = worker.tables.rowids("t")
    db.sql("insert into t values (1000, 'end')")
    again = opened(sim.after_kill())
    other = again._engine.executor
    assert other.tables.rowids("t").tolist()[:-1] == rowids.tolist()
    assert other.tables.scan("t").tolist() == worker.tables.scan("t").tolist()
    assert len(other.dictionary) == len(worker.dictionary)
    assert other.tables.table_number("t") == worker.tables.table_number("t")
    db.sql("insert into t values (1001, 'new')")
    again.sql("insert into t values (1001, 'new')")
    assert other.tables.rowids("t").tolist() == worker.tables.rowids("t").tolist()
    assert again.query("select b from t where a = 1000").fetchall() == [("end",)]
    assert Decimal(again.epoch) == db.epoch


def test_views_over_the_system_are_asked_again_after_opening(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(
            "create table t (a int); create view names as select relname from pg_class where relkind = 'r'"
        )
        db.sql("create view checked as select a from t where a > 0 with check option")
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table u (a int)")
        assert sorted(db.query("select * from names")) == [("t",), ("u",)]
        with pytest.raises(kpg.IntegrityError, match='fails the CHECK OPTION of view "checked"'):
            db.sql("insert into checked values (-1)")


def test_a_view_made_after_a_checkpoint_takes_nothing_old_from_it(tmp_path: Path) -> None:
    """An arrangement that the checkpoint has, and whose view is gone, lacks the rows that came since."""
    query = "select t.k, u.name from t join u on t.g = u.k"
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t (k int primary key, g int); create table u (k int primary key, name text)")
        db.sql("insert into t values (1, 1); insert into u values (1, 'x')")
        db.sql(f"create materialized view a as {query}")
    db = kpg.connect(tmp_path / "db")
    db.sql("insert into t values (2, 1); drop view a")
    db.sql(f"create materialized view b as {query}")
    shutil.copytree(tmp_path / "db", tmp_path / "killed", ignore=shutil.ignore_patterns("lock"))
    db.close()
    with kpg.connect(tmp_path / "killed") as again:
        assert sorted(again.view("b").fetchall()) == [(1, "x"), (2, "x")]
        again.verify("b")


def test_the_mode_normal_syncs_when_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.persistence.write_ahead_log.SYNC_DELAY", 0.01)
    with kpg.connect(tmp_path / "db", synchronous="normal") as db:
        keeper = db._engine.write_ahead_log
        assert isinstance(keeper, WriteAheadLog)
        with keeper._delayed_sync.lock:
            db.sql("create table t (a int)")
            db.sql("insert into t values (1)")
            log, timer = keeper.log, keeper._delayed_sync._timer
            assert log is not None and log.synced < log.number - 1
        if timer is not None:
            timer.join()
        with keeper._delayed_sync.lock:
            assert log.synced == log.number - 1


def test_goals_come_back_for_who_prepares_them_again() -> None:
    sim = Sim()
    db = opened(sim)
    db.datalog(
        ".decl e(a: number, b: number) .input e .decl tc(a: number, b: number) "
        "tc(a, b) :- e(a, b). tc(a, c) :- tc(a, b), e(b, c). e(1, 2). e(2, 3). e(7, 8)."
    )
    db.sql("create table words (w text)")
    text = "?- tc($a, x)."
    goal = db.prepare(text)
    other = db.prepare("?- e(x, 8).")
    third = db.prepare('?- words("a").')
    assert sorted(goal(a=1).fetchall()) == [(2,), (3,)]
    other.drop()
    for end in ("killed", "closed", "checkpoint"):
        if end == "closed":
            db.close()
        elif end == "checkpoint":
            db.sql("checkpoint")
        sim = sim.after_kill()
        db = opened(sim)
        assert set(db._engine.goals) == {text, '?- words("a").'}
        program = next(one for one in db._engine.dataflows.values() if one.label != "Datalog")
        made = program._form_count  # type: ignore[attr-defined]
        again = db.prepare(text)
        assert program._form_count == made  # type: ignore[attr-defined]
        assert sorted(again(a=1).fetchall()) == [(2,), (3,)]
    db.sql("drop table words")  # nobody has prepared the goal about it in this life
    again.drop()
    db = opened(sim.after_kill())
    assert not db._engine.goals
    third.drop()


@pytest.mark.parametrize(
    "change", ["drop table words", "alter table words alter column n type bigint", "drop table words cascade"]
)
def test_goals_that_nobody_has_prepared_again_are_in_nobodys_way(change: str) -> None:
    sim = Sim()
    db = opened(sim)
    db.sql("create table words (w text, n int)")
    db.prepare('?- words("a", n).')
    with pytest.raises(kpg.Error, match="use"):
        db.sql("drop table words")
    sim = sim.after_kill()
    db = opened(sim)
    db.sql(change)
    assert not db._engine.goals and not db._engine.waiting_goals
    with opened(sim.after_kill()) as again:
        assert not again._engine.goals
    db = opened(sim.after_kill())
    db.sql("create table if not exists words (w text, n int)")
    db.prepare('?- words("a", n).')
    with pytest.raises(kpg.Error, match="use"):
        db.sql("drop table words")


def test_children_roles_and_zones_live_on() -> None:
    sim = Sim()
    db = opened(sim)
    for text in (
        "create table t (a int, b int)",
        "create table child (a int, c int)",
        "create role ada",
        "grant select on t to ada",
        "set timezone to 'Europe/Vienna'",
        "create materialized view vz as select timestamptz '2024-01-01 00:00Z'::text z from t",
        "insert into t values (1, 1)",
    ):
        db.sql(text)
    for end in ("killed", "checkpoint"):
        if end == "checkpoint":
            db.sql("checkpoint")
        with opened(sim.after_kill()) as again:
            again.sql(
                "insert into t values (2, 2); delete from t where a = 1; insert into child values (3, 3)"
            )
            assert sorted(again.query("select a from t").fetchall()) == [(2,)]
            assert again.query("select distinct z from vz").fetchall() == [("2024-01-01 01:00:00+01",)]
            granted = "select privilege_type from information_schema.role_table_grants where grantee = 'ada'"
            assert again.query(granted).fetchall() == [("SELECT",)]


def test_opening_has_no_garbage_collected_and_makes_nothing_that_no_row_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300 tables: the collector, which would walk over all definitions again and again, rests."""
    with kpg.connect(tmp_path / "db") as db:
        for number in range(300):
            db.sql(f"create table t{number} (id int primary key, name text, v numeric default 1.5)")
        db.sql("insert into t7 values (1, 'one', 2)")
    made = []
    encoder = table_module.RowEncoder
    monkeypatch.setattr(table_module, "RowEncoder", lambda *given: made.append(1) or encoder(*given))
    with kpg.connect() as before:
        before.sql("select 1")
    counts = [one["collections"] for one in gc.get_stats()]
    with kpg.connect(tmp_path / "db") as db:
        assert sum(one["collections"] for one in gc.get_stats()) - sum(counts) < 5
        assert gc.isenabled() and gc.get_freeze_count() == 0
        assert not made
        db.insert("t7", [(2, "two", 3)])
        assert len(made) == 2
        assert db.query("select id from t7").fetchall() == [(1,), (2,)]
