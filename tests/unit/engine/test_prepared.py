"""Prepared statements of a session: those of SQL, and those of messages."""

import pytest

import kpg
from kpg.session.engine import Engine


class Came:
    text = "select $1"

    def declared(self, engine: Engine) -> tuple[str, ...]:
        return ("integer",)


def test_a_name_means_one_statement() -> None:
    with kpg.connect() as db:
        engine = db.hub.engine
        db.sql("prepare a as select 1")
        known = engine.prepared_statements
        known.protocol_statements["b"] = known.protocol_statements[""] = Came()
        assert [(one.name, by_sql) for one, by_sql in known.named_statements(engine)] == [
            ("a", True),
            ("b", False),
        ]
        with pytest.raises(kpg.ProgrammingError, match='"b" already exists'):
            db.sql("prepare b as select 2")
        assert db.query("execute b(7)").fetchall() == [(7,)]
        assert known.find(engine, "c") is None
        db.sql("deallocate b")
        with pytest.raises(kpg.ProgrammingError, match='prepared statement "b" does not exist'):
            db.sql("deallocate b")
        known.protocol_statements["b"] = Came()
        db.sql("deallocate all")
        assert (dict(known), list(known.protocol_statements)) == ({}, [""])


def test_names_in_quotes_keep_their_case() -> None:
    with kpg.connect() as db:
        db.sql('prepare "A" as select 1; prepare A as select 2')
        assert (db.query('execute "A"').fetchall(), db.query("execute a").fetchall()) == ([(1,)], [(2,)])
        db.sql('begin; declare "C" cursor for select 3; declare C cursor for select 4')
        assert (db.query('fetch "C"').fetchall(), db.query("fetch c").fetchall()) == ([(3,)], [(4,)])
