"""What statements say comes with their own replies, also of those that are done together."""

from collections import defaultdict
from functools import partial

import psycopg

import kpg
from tests.unit.server.conftest import serving


def note(said: list[str | None], told: psycopg.errors.Diagnostic) -> None:
    said.append(told.message_primary)


def test_notices_come_with_the_statement_that_said_them() -> None:
    with serving() as running:
        said: dict[int, list[str | None]] = defaultdict(list)
        both = [psycopg.connect(running.dsn, autocommit=True) for _ in range(2)]
        both[0].execute(
            "create function f(i int) returns int language plpgsql as "
            "$$ begin raise notice 'n %', i; return i; end $$"
        )
        for number, one in enumerate(both):
            one.add_notice_handler(partial(note, said[number]))
            one.execute(f"select f({number})".encode())
        assert said == {0: ["n 0"], 1: ["n 1"]}
        for one in both:
            one.close()


def test_notices_of_statements_done_together_are_their_sessions() -> None:
    with kpg.connect() as db:
        hub = db.hub
        db.sql("create table j (id int primary key)")
        db.sql(
            "create function f() returns trigger language plpgsql as "
            "$$ begin raise notice 'row %', new.id; return new; end $$"
        )
        db.sql("create trigger f before insert on j for each row execute function f()")
        sessions = [db.session() for _ in range(3)]
        for number, one in enumerate(sessions[:2]):
            text = f"insert into j values ({number})"
            hub.submit(one, partial(one.answer, hub.engine, text), **one.how(text, None))
        hub.serve()
        sessions[2].sql("select 1")
        assert [[told.message for told in one.notices] for one in sessions] == [["row 0"], ["row 1"], []]
