"""Real clients: what their users do every day."""

import asyncio
import datetime
import decimal
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.types.json import Jsonb

from kpg.server import subscribe
from tests.unit.server.conftest import Running, serving
from tests.unit.server.programs import psql
from tests.waiting import until

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


@pytest.fixture
def connection(running: Running) -> Iterator[psycopg.Connection]:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        yield one
        one.execute("drop table if exists t cascade")


def test_psql_runs_a_script(running: Running) -> None:
    script = "create table ps (a int primary key, b text); insert into ps values (1, 'x'), (2, null);"
    assert psql(running, "-c", script, "-c", "select * from ps") == "CREATE TABLE\nINSERT 0 2\n1|x\n2|\n"
    assert psql(running, "-c", "select nope from ps").splitlines()[:3] == [
        'ERROR:  column "nope" does not exist',
        "LINE 1: select nope from ps",
        "               ^",
    ]
    assert psql(running, "-c", "drop table ps") == "DROP TABLE\n"


def test_with_queries_that_change_are_told_by_what_comes_behind(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x int); insert into t values (1, 1), (2, 2)")
    gone = "with gone as (delete from t where id = 1 returning *)"
    told = [
        connection.execute(text).statusmessage
        for text in (
            f"{gone} insert into t select id + 10, x from gone",
            f"{gone} update t set x = 5 where id > 2",
            f"{gone} delete from t where x = 1",
            f"{gone} merge into t using gone on t.id = gone.id when matched then do nothing",
            f"{gone} select * from t",
            "with i as (insert into t values (3, 3) on conflict do nothing returning id) update t set x = 4",
            "with i as (insert into t values (4, 3) on conflict (id) do update set x = 1) delete from t",
        )
    ]
    assert told == ["INSERT 0 1", "UPDATE 1", "DELETE 0", "MERGE 0", "SELECT 2", "UPDATE 2", "DELETE 3"]


def test_psql_describes_relations(running: Running) -> None:
    tables = """
        create table owner (id int primary key, name varchar(20) not null default 'x');
        create table pet (id bigint generated always as identity primary key,
            owner int references owner on delete cascade, weight numeric(10,2) check (weight > 0),
            tags text[]);
        create index by_owner on pet (owner);
        create materialized view pets as select owner, count(*) as n from pet group by owner
    """
    assert "ERROR" not in psql(running, "-c", tables)
    listed = psql(running, "-c", r"\d").splitlines()
    assert listed == [
        "public|owner|table|kpg",
        "public|pet|table|kpg",
        "public|pet_id_seq|sequence|kpg",
        "public|pets|materialized view|kpg",
    ]
    assert psql(running, "-P", "tuples_only=off", "-c", r"\d pet").splitlines() == [
        'Table "public.pet"',
        "Column|Type|Collation|Nullable|Default",
        "id|bigint||not null|generated always as identity",
        "owner|integer|||",
        "weight|numeric(10,2)|||",
        "tags|text[]|||",
        "Indexes:",
        '    "pet_pkey" PRIMARY KEY, btree (id)',
        '    "by_owner" btree (owner)',
        "Check constraints:",
        '    "pet_weight_check" CHECK (weight > 0::numeric)',
        "Foreign-key constraints:",
        '    "pet_owner_fkey" FOREIGN KEY (owner) REFERENCES owner(id) ON DELETE CASCADE',
    ]
    assert 'TABLE "pet" CONSTRAINT "pet_owner_fkey"' in psql(
        running, "-P", "tuples_only=off", "-c", r"\d owner"
    )
    assert "select owner, count(*) as n" in psql(running, "-P", "tuples_only=off", "-c", r"\d+ pets")
    for command in (
        r"\dt+",
        r"\dn+",
        r"\du",
        r"\l",
        r"\di",
        r"\ds",
        r"\dv",
        r"\dm",
        r"\df",
        r"\dp",
        r"\dx",
        r"\db",
    ):
        assert "ERROR" not in psql(running, "-c", command), command
    psql(running, "-c", "drop table owner, pet cascade")


def test_sqlalchemy_reflects_and_maps(running: Running) -> None:
    import sqlalchemy as sa
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

    class Base(DeclarativeBase):
        pass

    class Author(Base):
        __tablename__ = "author"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str]
        books: Mapped[list["Book"]] = relationship(back_populates="author")

    class Book(Base):
        __tablename__ = "book"
        id: Mapped[int] = mapped_column(primary_key=True)
        author_id: Mapped[int] = mapped_column(sa.ForeignKey("author.id"))
        title: Mapped[str | None]
        author: Mapped[Author] = relationship(back_populates="books")

    Base.registry.configure()
    engine = sa.create_engine(f"postgresql+psycopg://kpg@127.0.0.1:{running.port}/kpg")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Author(name="ann", books=[Book(title="a"), Book(title=None)]), Author(name="bob")])
        session.commit()
        counted = sa.select(Author.name, sa.func.count(Book.id)).outerjoin(Book).group_by(Author.name)
        assert session.execute(counted.order_by(Author.name)).all() == [("ann", 2), ("bob", 0)]
        ann = session.get(Author, 1)
        assert ann is not None
        ann.name = "anna"
        session.delete(ann.books[0])
        session.commit()
        assert [book.title for book in ann.books] == [None]
    found = sa.inspect(engine)
    assert {"author", "book"} <= set(found.get_table_names())
    columns = [(one["name"], str(one["type"]), one["nullable"]) for one in found.get_columns("book")]
    assert columns == [("id", "INTEGER", False), ("author_id", "INTEGER", False), ("title", "TEXT", True)]
    (key,) = found.get_foreign_keys("book")
    assert (key["constrained_columns"], key["referred_table"]) == (["author_id"], "author")
    assert found.get_pk_constraint("author")["constrained_columns"] == ["id"]
    Base.metadata.drop_all(engine)
    engine.dispose()


def test_psycopg_sends_and_gets_values_of_all_types(connection: psycopg.Connection) -> None:
    connection.execute(
        "create table t (id int primary key, n numeric, at timestamptz, u uuid, j jsonb, a int[], b bytea, "
        "d date, f float8, s text)"
    )
    row = (
        1,
        decimal.Decimal("1.25"),
        datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC),
        uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
        {"a": [1, 2]},
        [1, None],
        b"\x00\xff",
        datetime.date(2021, 2, 3),
        1.5,
        "O'Neill \\ $1 \N{SNOWMAN}",
    )
    places = ", ".join(["%s"] * len(row))
    given = [Jsonb(value) if isinstance(value, dict) else value for value in row]
    connection.execute(f"insert into t values ({places})".encode(), given)
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            assert cursor.execute("select * from t where id = %s", (1,)).fetchone() == row


def test_a_statement_is_prepared_by_its_client(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int, x int)")
    connection.execute("insert into t select i, i * i from generate_series(0, 9) g(i)")
    found = [
        connection.execute("select x from t where id = %s", (number,), prepare=True).fetchone()
        for number in range(10)
    ]
    assert found == [(number * number,) for number in range(10)]


def test_many_rows_and_pipelines(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x float8)")
    with connection.cursor() as cursor:
        cursor.executemany("insert into t values (%s, %s)", [(i, i / 4) for i in range(100)])
        assert cursor.rowcount == 100
    with connection.pipeline():
        for number in range(100, 110):
            connection.execute("insert into t values (%s, 0)", (number,))
    assert connection.execute("select count(*), sum(x) from t").fetchone() == (110, 1237.5)
    connection.execute("insert into t select i, 0 from generate_series(1000, 10999) g(i)")
    assert len(connection.execute("select * from t").fetchall()) == 10110


def test_returning(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x int)")
    insert = "insert into t values (%s, %s) returning id, x + 1 as y"
    assert connection.execute(insert, (1, 5)).fetchone() == (1, 6)
    update = connection.execute("update t set x = x * 2 where id = %s returning x", (1,))
    assert update.fetchone() == (10,)
    assert connection.execute("delete from t returning *").fetchall() == [(1, 10)]


def test_errors_have_their_state_and_place(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x int check (x > 0))")
    connection.execute("insert into t values (1, 1)")
    states = {
        "selec 1": "42601",
        "select * from nope": "42P01",
        "select nope from t": "42703",
        "select nofn(1)": "42883",
        "select 1 / 0": "22012",
        "select 2147483647 + 1": "22003",
        "insert into t values (1, 2)": "23505",
        "insert into t values (null, 2)": "23502",
        "insert into t values (2, 0)": "23514",
        "create table t (a int)": "42P07",
        "savepoint x": "25P01",
    }
    for text, state in states.items():
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(text.encode())
        assert (text, caught.value.sqlstate) == (text, state)
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select 1, nope from t")
    assert caught.value.diag.statement_position == "11"


def test_transactions(running: Running, connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x int)")
    with psycopg.connect(running.dsn) as one:
        one.execute("insert into t values (1, 1)")
        assert one.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        assert connection.execute("select count(*) from t").fetchone() == (0,)
        one.commit()
        assert connection.execute("select count(*) from t").fetchone() == (1,)
        with pytest.raises(psycopg.errors.UniqueViolation):
            one.execute("insert into t values (1, 1)")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            one.execute("select 1")
        one.rollback()
        with one.transaction():
            one.execute("update t set x = 2")
            with pytest.raises(psycopg.errors.DivisionByZero), one.transaction():
                one.execute("update t set x = 3")
                one.execute("select 1 / 0")
        assert connection.execute("select x from t").fetchone() == (2,)


def test_a_conflict_is_a_serialization_failure(running: Running, connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x int)")
    connection.execute("insert into t values (1, 1)")
    with psycopg.connect(running.dsn) as one:
        one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        one.execute("select x from t")
        connection.execute("update t set x = x + 10")
        with pytest.raises(psycopg.errors.SerializationFailure):
            one.execute("update t set x = x + 1")
    assert connection.execute("select x from t").fetchone() == (11,)


def test_a_key_that_was_taken_meanwhile_ends_the_commit(
    running: Running, connection: psycopg.Connection
) -> None:
    connection.execute("create table t (id int primary key, x int)")
    with psycopg.connect(running.dsn) as one:
        one.execute("insert into t values (1, 1)")
        connection.execute("insert into t values (1, 2)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            one.commit()
        assert one.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert connection.execute("select x from t").fetchall() == [(2,)]


def test_after_a_conflict_a_savepoint_and_a_prepared_rollback_work(
    running: Running, connection: psycopg.Connection
) -> None:
    connection.execute("create table t (id int primary key, x int)")
    connection.execute("insert into t values (1, 0), (2, 0)")
    with psycopg.connect(running.dsn, prepare_threshold=0, autocommit=True) as one:
        for turn in range(3):
            one.execute("begin")
            one.execute("update t set x = x + 1 where id = 2")
            one.execute("savepoint p")
            one.execute("insert into t values (%s, 1)", (10 + turn,))
            connection.execute("insert into t values (%s, 100)", (10 + turn,))
            if turn == 0:  # the prepared ROLLBACK is the first to meet the conflict
                one.execute("rollback")
                continue
            if turn == 1:
                with pytest.raises(psycopg.errors.UniqueViolation):
                    one.execute("select x from t")
            one.execute("rollback to p")
            one.execute("commit")
    found = connection.execute("select x from t order by id").fetchall()
    assert found == [(0,), (2,), (100,), (100,), (100,)]


def test_who_cancels_too_late_does_not_meet_the_next_statement(
    running: Running, connection: psycopg.Connection
) -> None:
    """The statement is done, and its client not told yet."""
    (client,) = running.server.clients.values()
    work = client.server.run

    async def late(*given: object, **how: object) -> object:
        result = await work(*given, **how)  # type: ignore[arg-type]
        running.server.cancel(client.number, client.secret)
        return result

    client.server.run = late  # type: ignore[assignment,method-assign]
    try:
        connection.execute("create table t (id int)")
        connection.execute("drop table t")
    finally:
        client.server.run = work  # type: ignore[method-assign]
    assert connection.execute("select 1").fetchone() == (1,)


def test_a_running_statement_is_cancelled(running: Running, connection: psycopg.Connection) -> None:
    connection.execute("set statement_timeout = '60s'")  # else a lost request takes all memory
    canceling = running.canceling(connection, ENDLESS)
    with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
        connection.execute(ENDLESS.encode())
    canceling.join()
    assert connection.execute("select 1").fetchone() == (1,)


def test_a_client_that_goes_takes_its_transaction_with_it(
    running: Running, connection: psycopg.Connection
) -> None:
    connection.execute("create table t (id int primary key)")
    one = psycopg.connect(running.dsn)
    one.execute("insert into t values (1)")
    one.pgconn.finish()
    until(lambda: len(running.server.clients) == 1)
    connection.execute("insert into t values (1)")
    assert connection.execute("select count(*) from t").fetchone() == (1,)


def test_asyncpg_reads(running: Running) -> None:
    import asyncpg

    async def read() -> list[tuple[object, ...]]:
        one = await asyncpg.connect(host="127.0.0.1", port=running.port, user="kpg", database="kpg")
        try:
            rows = await one.fetch("select 1 as a, 'x' as b, 2.5 as n, date '2020-01-02' as d")
            return [tuple(row.values()) for row in rows]
        finally:
            await one.close()

    expected = (1, "x", decimal.Decimal("2.5"), datetime.date(2020, 1, 2))
    assert asyncio.run(read()) == [expected]


def test_copy_in_and_out(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, s text default 'none')")
    with connection.cursor() as cursor:
        with cursor.copy("copy t from stdin") as copy:
            for row in ((1, "a\tb"), (2, None), (3, "\\")):
                copy.write_row(row)
        with cursor.copy("copy t (id) from stdin (format csv)") as copy:
            copy.write("4\n5\n")
        assert cursor.execute("select * from t order by id").fetchall() == [
            (1, "a\tb"),
            (2, None),
            (3, "\\"),
            (4, "none"),
            (5, "none"),
        ]
        with cursor.copy("copy (select id, s from t where id < 4 order by id) to stdout") as copy:
            assert list(copy.rows()) == [("1", "a\tb"), ("2", None), ("3", "\\")]
        with (
            pytest.raises(psycopg.errors.InvalidTextRepresentation),
            cursor.copy("copy t from stdin") as copy,
        ):
            copy.write("x\ty\n")
        with pytest.raises(psycopg.Error, match="no more"), cursor.copy("copy t from stdin") as copy:
            raise psycopg.DataError("no more")
        assert cursor.execute("select count(*) from t").fetchone() == (5,)


def test_subscribing(running: Running, connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x int)")
    connection.execute("create materialized view v as select x, count(*) as n from t group by x")
    connection.execute("insert into t values (1, 7), (2, 7)")
    with psycopg.connect(running.dsn, autocommit=True) as listener:
        stream = listener.cursor().stream("subscribe v")
        first = next(stream)
        assert first[1:] == (1, 7, 2)
        connection.execute("insert into t values (3, 7)")
        changes = sorted(next(stream)[1:] for _ in range(2))
        assert changes == [(-1, 7, 2), (1, 7, 3)]
        connection.execute("insert into t values (4, 8)")
        later = next(stream)
        assert later[1:] == (1, 8, 1)
        assert later[0] > first[0]
        listener.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            next(stream)
        assert listener.execute("select count(*) from t").fetchone() == (4,)


def test_contents_may_be_larger_than_what_may_wait(
    running: Running, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribe, "MAX_PENDING_BYTES", 1 << 16)
    connection.execute("create table t (a int, b text)")
    connection.execute("create materialized view v as select a, b from t")
    connection.execute("insert into t select i, repeat('x', 100) from generate_series(1, 5000) t(i)")
    with psycopg.connect(running.dsn, autocommit=True) as listener:
        stream = listener.cursor().stream("subscribe v")
        first = next(stream)
        connection.execute("delete from t where a = 7")
        rest = [next(stream) for _ in range(5000)]
        assert sorted(row[2] for row in (first, *rest[:-1])) == list(range(1, 5001))
        assert rest[-1][1:] == (-1, 7, "x" * 100)
        listener.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            next(stream)


def test_subscribing_by_copy_with_progress(running: Running, connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int primary key, x text)")
    connection.execute("create materialized view v as select id, x from t")
    connection.execute("insert into t values (1, 'old')")
    with (
        psycopg.connect(running.dsn, autocommit=True) as listener,
        listener.cursor() as cursor,
        pytest.raises(psycopg.errors.QueryCanceled),
        cursor.copy("copy (subscribe v with (snapshot = false, progress)) to stdout") as copy,
    ):
        rows = copy.rows()
        begun = next(rows)
        assert begun[1:] == ("t", None, None, None)
        connection.execute("insert into t values (2, 'a\\b')")
        changed = next(row for row in rows if row[1] == "f")
        assert changed[2:] == ("1", "2", "a\\b")
        assert int(changed[0] or 0) >= int(begun[0] or 0)
        assert next(rows)[1] == "t"
        listener.cancel_safe()
        list(rows)


def test_who_subscribes_to_nothing_is_told(connection: psycopg.Connection) -> None:
    connection.execute("create table t (id int)")
    states = {
        "subscribe nope": "42P01",
        "subscribe t": "42809",
        "subscribe t with (fast)": "42601",
        "subscribe t sometimes": "42601",
    }
    for text, state in states.items():
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(text.encode())
        assert (text, caught.value.sqlstate) == (text, state)


def test_asyncpg_prepares_by_the_types_of_what_parameters_meet(running: Running) -> None:
    import asyncpg

    async def work() -> list[object]:
        one = await asyncpg.connect(host="127.0.0.1", port=running.port, user="kpg", database="kpg")
        try:
            await one.execute("create table ap (id int primary key, s text, n numeric, at timestamptz)")
            at = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
            insert = "insert into ap (id, s, n, at) values ($1, $2, $3, $4)"
            await one.execute(insert, 1, "x", decimal.Decimal("1.5"), at)
            await one.executemany(insert, [(i, None, None, at) for i in range(2, 10)])
            found: list[object] = [tuple(await one.fetchrow("select * from ap where id = $1", 1))]
            found.append(await one.fetchval("select count(*) from ap where at = $1 and id > $2", at, 3))
            found.append(await one.fetch("select id from ap order by id limit $1 offset $2", 2, 1))
            found.append(await one.execute("update ap set s = $2 where id = $1", 2, "y"))
            async with one.transaction():
                found.append(await one.fetchval("select s from ap where id = $1", 2))
                found.append([row["id"] async for row in one.cursor("select id from ap where id < $1", 4)])
            await one.execute("drop table ap")
            return found
        finally:
            await one.close()

    at = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    found = asyncio.run(work())
    assert found[0] == (1, "x", decimal.Decimal("1.5"), at)
    assert found[1:] == [6, [(2,), (3,)], "UPDATE 1", "y", [1, 2, 3]]
