"""What recursive queries mean, by the model of the algebra: against DuckDB, and against literal answers."""

from collections.abc import Iterator

import duckdb
import pytest

from kpg.compiler.algebra.text import parse as parse_plan
from kpg.compiler.algebra.text import rel_text, relations
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.runtime.types import ColumnDef, Schema
from tests.model.relation import RecursionLimitError, Row
from tests.unit.compiler.sql.oracle import Data, catalog_of, check, database_of, model_rows

TABLES = "create table edge (a integer, b integer); create table node (n integer, w bigint)"
DATA: Data = {
    "edge": [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (4, 5), (7, 8), (None, 1), (8, None)],
    "node": [(1, 10), (2, 20), (3, None), (4, 40), (5, 50), (7, 70)],
}
CATALOG = catalog_of(TABLES)
Edges = set[tuple[int | None, int | None]]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with database_of(TABLES, DATA) as opened:
        yield opened


@pytest.mark.parametrize(
    "query",
    [
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 10) select * from r",
        """with recursive r(n) as (values (1), (2) union all select n * 2 from r where n < 9)
        select n, n + 1 from r""",
        "with recursive r(n) as (select 1 union select b from r join edge on a = n) select * from r",
        """with recursive r as (select a, b from edge union select r.a, e.b from r join edge e on
        r.b = e.a) select * from r""",
        """with recursive r(n, d) as (select 1, 0 union all select b, d + 1 from r, edge where a =
        n and d < 6) select * from r""",
        """with recursive r(n) as (select 4 union all select b from r join edge on a = n) select n,
        count(*) from r group by n""",
        """with recursive r(n) as (select n from node where w > 60 union all (select b from r, edge
        where a = n)) select * from r""",
        """with recursive s as (select b as n from edge), r as (select n from s where n > 3 union
        select n - 1 from r where n > 0) select r.n, s.n from r, s where r.n = s.n""",
        """with recursive r(n) as (select 1 union select b from r join edge on a = n), s as (select
        n from r where n > 2 union select n + 10 from s where n < 30) select * from s""",
        """with recursive r(n) as (select 1 union all select v.n from r, lateral (select r.n + 1 as
        n) v where v.n < (select max(n) from node)) select * from r""",
        """with recursive r(n) as (select 1 union all select r.n + 1 from r join node on node.n =
        r.n left join edge on edge.a = node.n and b > 4) select * from r""",
        """select (with recursive r(n) as (select 1 union select n + 1 from r where n < 4) select
        sum(n) from r), n from node""",
        """with recursive r(s) as (select cast('a' as varchar) union all select s || 'b' from r
        where length(s) < 4) select * from r""",
    ],
)
def test_as_in_duckdb(query: str, connection: duckdb.DuckDBPyConnection) -> None:
    bound = check(query, CATALOG, DATA, connection)
    assert parse_plan(rel_text(bound.rel), relations(bound.rel)) == bound.rel


def answer(query: str, catalog: Catalog = CATALOG, data: Data = DATA) -> list[Row]:
    return sorted(model_rows(lower_query(parse_query(query), catalog), data))


def closure(edges: Edges) -> Edges:
    """Pairs with a path between them."""
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in edges if b == c and b is not None}
        if more <= found:
            return found
        found |= more


def test_a_step_may_join_its_rows_with_themselves() -> None:
    query = """
        with recursive r as (
            select a, b from edge where a > 0 and b > 0 union select x.a, y.b from r x join r y on x.b = y.a)
        select * from r"""
    edges = {(a, b) for a, b in DATA["edge"] if a is not None and b is not None}
    assert answer(query) == sorted(closure(edges))  # type: ignore[type-var]


def test_several_steps() -> None:
    query = """
        with recursive r(n) as (
            select 1 union select n * 2 from r where n < 10 union select n * 3 from r where n < 10)
        select n from r"""
    assert answer(query) == [(n,) for n in (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 27)]


def test_mutual_recursion() -> None:
    query = """
        with mutually recursive
            even (n int) as (select 0 union select m + 1 from odd where m < 8),
            odd (m int) as (select n + 1 from even where n < 8)
        select 'even', n from even union all select 'odd', m from odd"""
    assert answer(query) == [("even", n) for n in (0, 2, 4, 6, 8)] + [("odd", n) for n in (1, 3, 5, 7)]


def test_non_monotone_recursion() -> None:
    """A position of a game is won if some move leads to a position that is not won."""
    query = """
        with mutually recursive won (n int) as (
            select distinct a from edge where a >= 4 and b not in (select n from won))
        select n from won"""
    data = {"edge": [(4, 5), (5, 6), (6, 7), (7, 8)], "node": []}
    assert answer(query, data=data) == [(5,), (7,)]


def test_aggregates_in_a_loop() -> None:
    query = """
        with mutually recursive dist (n int, d bigint) as (
            select n, min(d) from (
                select 1 as n, 0 as d union all select b, d + 1 from dist join edge on a = n where b > 0
            ) step group by n)
        select * from dist"""
    assert answer(query) == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]


COUNTING = (
    "with mutually recursive {} r (n int) as (select 1 union all select n + 1 from r {}) select max(n) from r"
)


def test_limits() -> None:
    assert answer(COUNTING.format("(return at recursion limit 5)", "")) == [(5,)]
    for words in ("(error at recursion limit 5)", "(recursion limit 5)"):
        with pytest.raises(RecursionLimitError):
            answer(COUNTING.format(words, ""))
        assert answer(COUNTING.format(words, "where n < 4")) == [(4,)]
        with pytest.raises(RecursionLimitError):
            answer(COUNTING.format(words, "where n < 5"))


def test_a_loop_within_a_loop() -> None:
    """What can be reached by the edges of which both ends can be left again, to the end."""
    query = """
        with mutually recursive kept (a int, b int) as (
            with recursive reach(n) as (
                select 1 union select kept.b from reach join kept on kept.a = reach.n)
            select a, b from edge where a in (select n from reach) and b not in (select 9))
        select * from kept"""
    assert answer(query) == sorted(edge for edge in DATA["edge"] if edge[0] in (1, 2, 3, 4))


def test_a_view_with_a_loop_beside_another_loop() -> None:
    text = """
        with recursive p as (select * from edge union select p.a, e.b from p, edge e where p.b = e.a)
        select * from p"""
    view = lower_query(parse_query(text), CATALOG)
    columns = (ColumnDef("a", view.types[0]), ColumnDef("b", view.types[1]))
    catalog = catalog_of(TABLES)
    catalog.add(ViewEntry("path", Schema(columns), view.rel))
    query = """
        with recursive r(n) as (select 1 union select p.b from r join path p on p.a = r.n)
        select r.n, count(*) from r join path p on p.a = r.n join path q on q.b = r.n group by r.n"""
    paths = closure(set(DATA["edge"]))  # type: ignore[arg-type]
    reached = {1, *(b for a, b in paths if a == 1)}
    counts = [(n, sum(a == n for a, _ in paths) * sum(b == n for _, b in paths)) for n in reached if n]
    assert answer(query, catalog) == sorted(row for row in counts if row[1])
