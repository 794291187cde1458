"""How definitions are written for who asks the catalogs: literal texts, those of Postgres 16."""

import pytest

import kpg

TABLE = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (a INT, b TEXT, c REAL, d NUMERIC(10, 2), e VARCHAR(20), f DATE, g BOOLEAN, m mood)
"""


@pytest.mark.parametrize(
    ("written", "short", "whole"),
    [
        ("d >= 0", "d >= 0::numeric", "(d >= (0)::numeric)"),
        ("b <> 'x' and a > 1", "b <> 'x'::text AND a > 1", "((b <> 'x'::text) AND (a > 1))"),
        ("e = 'x'", "e::text = 'x'::text", "((e)::text = 'x'::text)"),
        ("(a + 1) * 2 > 3", "((a + 1) * 2) > 3", "(((a + 1) * 2) > 3)"),
        ("a in (1, 2)", "a = ANY (ARRAY[1, 2])", "(a = ANY (ARRAY[1, 2]))"),
        ("a not in (1, 2)", "a <> ALL (ARRAY[1, 2])", "(a <> ALL (ARRAY[1, 2]))"),
        ("a between 1 and 5", "a >= 1 AND a <= 5", "((a >= 1) AND (a <= 5))"),
        ("b like 'x%' or not g", "b ~~ 'x%'::text OR NOT g", "((b ~~ 'x%'::text) OR (NOT g))"),
        ("f > '2020-01-01'", "f > '2020-01-01'::date", "(f > '2020-01-01'::date)"),
        ("f is not null", "f IS NOT NULL", "(f IS NOT NULL)"),
        ("length(b) > 0", "length(b) > 0", "(length(b) > 0)"),
        (
            "coalesce(b, 'z') = 'z'",
            "COALESCE(b, 'z'::text) = 'z'::text",
            "(COALESCE(b, 'z'::text) = 'z'::text)",
        ),
        ("c > 0", "c > 0::double precision", "(c > (0)::double precision)"),
        ("m = 'ok'", "m = 'ok'::mood", "(m = 'ok'::mood)"),
    ],
)
def test_checks_are_written_as_postgres_writes_them(written: str, short: str, whole: str) -> None:
    with kpg.connect() as db:
        db.sql(f"{TABLE[:-2]}, CONSTRAINT k CHECK ({written}))")
        for pretty, text in (("true", short), ("false", whole)):
            query = f"SELECT pg_get_constraintdef(oid, {pretty}) FROM pg_constraint WHERE conname = 'k'"
            assert db.query(query).fetchall() == [(f"CHECK ({text})",)]


def test_names_have_their_schemas_where_the_path_does_not_lead_to_them() -> None:
    with kpg.connect() as db:
        db.sql("CREATE SCHEMA s; CREATE TABLE s.t (a INT); CREATE TABLE t (a INT, b INT DEFAULT 1)")
        db.sql("CREATE VIEW v AS SELECT t.a FROM t JOIN s.t u ON u.a = t.a")
        seen = "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)"
        assert db.query(f"{seen} ORDER BY oid::regclass::text").fetchall() == [("t",)]
        shown = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' ORDER BY 1"
        assert db.query(shown).fetchall() == [("s.t",), ("t",)]
        db.sql("SET search_path = ''")
        assert db.query(shown).fetchall() == [("public.t",), ("s.t",)]
        assert db.query("SELECT definition FROM pg_views").fetchall() == [
            (" SELECT t.a FROM public.t JOIN s.t u ON u.a = t.a;",)
        ]
        query = db.query("SELECT pg_get_viewdef('v'::regclass)").fetchall()
        assert query == [(" SELECT t.a FROM public.t JOIN s.t u ON u.a = t.a;",)]


def test_a_primary_key_that_comes_after_views_is_one_for_the_catalogs() -> None:
    with kpg.connect() as db:
        db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        db.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
        keys = "SELECT conname, contype FROM pg_constraint"
        assert db.query(keys).fetchall() == [("t_pkey", "p")]
        with pytest.raises(kpg.ProgrammingError, match="one primary key only"):
            db.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
