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
        (".tables", "that is a command of the prompt: kpg sql, without a script"),
        ("p(1, 2).", "this is Datalog: db.datalog takes it"),
        ("p(x) :- q(x, _).", "this is Datalog: db.datalog takes it"),
        ("foo bar", "expected a statement"),
        ("select (1", None),
        ("select a from t wher a = 1", 'did you mean "WHERE"?'),
        ("select * form t", 'did you mean "FROM"?'),
        ("select a from t gruop by a", 'did you mean "GROUP"?'),
        ("select a b c from t", None),
        ("delete t where a = 1", "DELETE FROM table ..."),
    ],
)
def test_hints(text: str, hint: str | None) -> None:
    with pytest.raises(kpg.ProgrammingError) as caught:
        kpg.connect().query(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "word", "start"),
    [("selct 1", "selct", 0), ("select 1;\n updat t set a = 1", "updat", 11), ("table 1", "1", 6)],
)
def test_the_place_is_that_of_the_mistyped_word(text: str, word: str, start: int) -> None:
    with pytest.raises(kpg.ProgrammingError, match=f'syntax error at "{word}"') as caught:
        kpg.connect().sql(text)
    assert caught.value.span is not None and caught.value.span.start == start


def test_a_mistyped_word_of_a_definition() -> None:
    with pytest.raises(kpg.NotSupportedError) as caught:
        kpg.connect().sql("create materialised view v as select 1")
    assert caught.value.hint == 'did you mean "MATERIALIZED"?'


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("insert into orders (id, custmer) values (1, 'x')", "custmer", 'did you mean "customer"?'),
        ("create table u (id int, name strng)", "strng", 'did you mean "string"?'),
        ("create index on orders (custmer)", "custmer", 'did you mean "customer"?'),
        ("alter table orders drop column custmer", "custmer", 'did you mean "customer"?'),
        ("grant select on orders to bob", "bob", None),
        ("drop table oders", "oders", 'did you mean "orders"?'),
        ("drop sequence nothing", "nothing", None),
        ("select count(distinct) from orders", "count", None),
        ("select array_agg(order by id) from orders", "array_agg", None),
        (
            "select sum(id) over from orders",
            "sum",
            "write OVER (), OVER (ORDER BY ...) or the name of a window",
        ),
    ],
)
def test_the_place_is_the_name_that_is_wrong(text: str, place: str, hint: str | None) -> None:
    db = kpg.connect()
    db.sql("create table orders (id bigint primary key, customer varchar)")
    with pytest.raises(kpg.ProgrammingError) as caught:
        db.sql(text)
    span = caught.value.span
    assert span is not None and text[span.start : span.end].startswith(place)
    assert text.count(place) > 1 or len(place) <= span.end - span.start < len(text)
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
