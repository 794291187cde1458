"""What a text that is no SQL was perhaps meant as."""

import pytest

import kpg


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("selct 1", 'did you mean "SELECT"?'),
        ("select 1; -- two\n/* three */ INSRT INTO t VALUES (1)", 'did you mean "INSERT"?'),
        ("updat t set a = 1", 'did you mean "UPDATE"?'),
        (
            "?- p(1, x).",
            'a goal of Datalog: db.prepare("?- ...")() answers it, as program.query does',
        ),
        (".decl p(x: number)", "this is Datalog: db.datalog takes it"),
        ("p(1, 2).", "this is Datalog: db.datalog takes it"),
        ("p(x) :- q(x, _).", "this is Datalog: db.datalog takes it"),
        ("foo bar", "expected a statement"),
        ("select (1", None),
    ],
)
def test_hints(text: str, hint: str | None) -> None:
    with pytest.raises(kpg.ProgrammingError) as caught:
        kpg.connect().query(text)
    assert caught.value.hint == hint


def test_sql_for_datalog() -> None:
    for text in ("select * from t", "INSERT INTO t VALUES (1)"):
        with pytest.raises(kpg.ProgrammingError) as caught:
            kpg.connect().datalog(text)
        assert caught.value.hint == "this is SQL: db.query and db.sql take it"


def test_explain_of_views_that_there_are() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    db.sql("CREATE VIEW w AS SELECT a FROM v WHERE n > 1")
    plan = db.view("v").explain()
    assert "Reduce" in plan
    for text in ("EXPLAIN VIEW v", "explain v", "EXPLAIN MATERIALIZED VIEW public.V", 'explain "v"'):
        assert db.explain(text) == plan and str(db.sql(text)) == plan
    assert "Import v" in db.explain("EXPLAIN VIEW w") and "t" in str(db.sql("EXPLAIN LOGICAL VIEW v"))
    with pytest.raises(kpg.ProgrammingError, match='"t" is a table') as caught:
        db.sql("EXPLAIN VIEW t")
    assert caught.value.hint == "the plan of a query: EXPLAIN SELECT * FROM t"
    with pytest.raises(kpg.ProgrammingError, match="nope"):
        db.sql("EXPLAIN VIEW nope")
