"""Long lists of VALUES in FROM: as if the parser had read them."""

from hypothesis import given, settings
from hypothesis import strategies as st

import kpg
from kpg.api.database import Database
from kpg.compiler.sql.parameterize.value_lists import MIN_LONG_LIST, find_long_lists, parse_script
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import Select
from kpg.runtime.errors import Error

CELLS = [
    "1",
    "-2",
    "2.5",
    "null",
    "'x'",
    "'it''s'",
    "'5'",
    "'2020-01-01'",
    "true",
    "date '2020-01-01'",
    "3000000000",
]
ODD = ["1 + 1", "default", "0x1f", "1e3", "'a' || 'b'", "E'x'", "(2)", "now()", "array[1]", "x"]
SHAPES = [
    "select * from (values {}) q",
    "select b, count(*) from (values {}) as q (a, b) where a is not null group by b",
    "with q (a, b) as (values {}) select * from q order by a, b",
    "values {}",
    "values {} order by 1 limit 3",
    "select * from t where (a, b) in (values {})",
    "select * from t join (values {}) q (x, y) on t.a = q.x",
    "select (values {})",
    "select 1 -- (values {})",
    "select * from (values {} union all select 7, 7) q",
    "select * from (values {}, (7, 7)) q (a, b)",
]


def told(db: Database, text: str, *, plainly: bool) -> object:
    """What a text gives; ``plainly``: a comment in its list has the parser read all of it."""
    try:
        return repr(db.sql(text.replace("), (", "),/**/(", 1) if plainly else text).fetchall())  # type: ignore[union-attr]
    except Error as error:
        return type(error).__name__, str(error).splitlines()[0].partition(":")[0], error.hint


@settings(max_examples=120)
@given(st.data())
def test_a_long_list_is_what_it_is_with_a_comment(data: st.DataObject) -> None:
    first = data.draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3))
    second = data.draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3))
    rows = [f"({first[n % len(first)]}, {second[n % len(second)]})" for n in range(MIN_LONG_LIST + 3)]
    if data.draw(st.integers(0, 3)) == 0:
        rows[data.draw(st.integers(0, MIN_LONG_LIST))] = f"({data.draw(st.sampled_from(ODD))}, 1)"
    text = data.draw(st.sampled_from(SHAPES)).replace("{}", ", ".join(rows))
    text += " " * 400
    with kpg.connect() as db:
        db.sql("create table t (a int, b text); insert into t values (1, 'x'), (2, 'y'), (null, null)")
        db.advance_to("2100-01-01 00:00:00")
        assert told(db, text, plainly=False) == told(db, text, plainly=True)


def test_a_list_in_a_string_is_none() -> None:
    text = f"(values {', '.join(f'({n})' for n in range(200))})"
    with kpg.connect() as db:
        assert db.query(f"select '{text}', 1").fetchall() == [(text, 1)]


def test_a_list_is_read_by_columns() -> None:
    rows = ",\n".join(f"({n}, 'y')" for n in range(100))
    (found,) = find_long_lists(f"select * from (values {rows}) q")
    assert found.columns == (tuple(map(str, range(100))), ("'y'",) * 100)
    (statement,) = parse_script(f"select * from (values {rows}) q where nothing = 1")
    assert isinstance(statement, Select)
    assert len(list(statement.query.walk())) < 30


def test_everything_else_has_its_place() -> None:
    rows = ",\n".join(f"({n}, 'y')" for n in range(100))
    with kpg.connect() as db:
        try:
            db.sql(f"select * from (values {rows}) q\nwhere nothing = 1")
        except Error as error:
            assert error.span is not None
            assert error.span.source[error.span.start : error.span.end] == "nothing"
            assert "line 101" in str(error)


def test_views_keep_their_text() -> None:
    rows = ", ".join(f"({n}, 'y')" for n in range(100))
    with kpg.connect() as db:
        db.sql(f"create materialized view v as select count(*) as n from (values {rows}) q (a, b)")
        assert db.view("v").fetchall() == [(100,)]
        assert db.view("v").sql == f"select count(*) as n from (values {rows}) q (a, b)"


def test_short_texts_are_parsed() -> None:
    assert find_long_lists("values (1), (2)") == []
    assert len(parse_script("values (1), (2); select 1")) == len(parse("values (1), (2); select 1"))
