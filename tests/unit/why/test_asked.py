"""EXPLAIN ROW and ``explain_row``: rows of SQL views down to rows of tables."""

import json

import pytest

import kpg

TABLES = """
    CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, region TEXT);
    CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, total INTEGER);
    INSERT INTO customer VALUES (1, 'Ada', 'EU'), (2, 'Ben', 'EU'), (3, 'Cyd', 'US'), (4, 'Dan', NULL);
    INSERT INTO sale VALUES (1, 1, 10), (2, 1, 20), (3, 2, 5), (4, 3, 7), (5, 3, 8), (6, 3, 9), (7, 3, 1);
"""


@pytest.fixture
def db() -> kpg.Database:
    """Customers with what they bought."""
    db = kpg.connect()
    db.sql(TABLES)
    return db


def test_a_join_is_explained_by_the_rows_that_were_joined(db: kpg.Database) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW big AS SELECT name, total FROM customer c JOIN sale s ON s.customer = c.id"
    )
    assert str(db.explain_row("big", ("Ben", 5))) == (
        "big(name = 'Ben', total = 5)\n"
        "├─ customer(id = 2, name = 'Ben', region = 'EU')  (row of a table)\n"
        "└─ sale(id = 3, customer = 2, total = 5)  (row of a table)"
    )


def test_an_outer_join_says_which_partner_is_absent(db: kpg.Database) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW bought AS"
        " SELECT name, s.id FROM customer c LEFT JOIN sale s ON s.customer = c.id AND s.total > 5"
    )
    assert str(db.explain_row("bought", ("Ben", None))) == (
        "bought(name = 'Ben', id = NULL)\n"
        "├─ customer(id = 2, name = 'Ben', region = 'EU')  (row of a table)\n"
        "└─ no row of sale with sale.customer = 2 AND sale.total > 5"
    )


def test_an_aggregate_is_explained_by_a_sample_with_the_number_of_all(db: kpg.Database) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW sums AS SELECT region, sum(total) AS sum, max(total) AS most"
        " FROM customer c JOIN sale s ON s.customer = c.id GROUP BY region"
    )
    proof = db.explain_row("sums", ("US", 25, 9))
    (group,) = proof.children
    assert group.text == "GROUP BY 'US'; sum(total) = 25, max(total) = 9"
    assert (group.count, len(group.children)) == (4, 3)
    best = [child.row for child in group.children[0].children if child.relation == "sale"]
    assert best == [(6, 3, 9)]
    (whole,) = db.explain_row("sums", {"region": "US"}, sample=None).children
    assert len(whole.children) == 4


def test_every_one_of_equal_rows_that_are_counted_is_explained_if_all_are_asked_for(
    db: kpg.Database,
) -> None:
    db.sql("CREATE MATERIALIZED VIEW region AS SELECT region FROM customer UNION ALL SELECT 'EU'")
    db.sql("CREATE MATERIALIZED VIEW many AS SELECT region, count(*) AS n FROM region GROUP BY region")
    assert sorted(db.view("many").fetchall(), key=str) == [("EU", 3), ("US", 1), (None, 1)]
    (group,) = db.explain_row("many", ("EU", 3)).children
    assert [child.text for child in group.children] == ["region(region = 'EU')"]
    (whole,) = db.explain_row("many", ("EU", 3), sample=None).children
    (rows,) = whole.children
    assert [step.text for step in rows.children] == [
        "UNION ALL: the first query",
        "UNION ALL: the second query",
    ]
    (two,) = rows.children[0].children
    assert (two.text, [child.row for child in two.children]) == (
        "2 such rows",
        [(1, "Ada", "EU"), (2, "Ben", "EU")],
    )


def test_a_row_behind_an_offset_is_explained_by_those_before_it_too(db: kpg.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW third AS SELECT id FROM sale ORDER BY total DESC LIMIT 1 OFFSET 2")
    assert str(db.explain_row("third", (6,))) == (
        "third(id = 6)\n"
        "└─ among the first 1 after 2 by sale.total DESC = 9\n"
        "   ├─ sale(id = 6, customer = 3, total = 9)  (row of a table)\n"
        "   └─ OFFSET 2  (over 2 rows)\n"
        "      ├─ sale(id = 1, customer = 1, total = 10)  (row of a table)\n"
        "      └─ sale(id = 2, customer = 1, total = 20)  (row of a table)"
    )


def test_what_the_statement_gives_is_lines_or_json(db: kpg.Database) -> None:
    db.sql("CREATE VIEW eu AS SELECT id FROM customer WHERE region = 'EU'")
    lines = [
        ("eu(id = 1)",),
        ("└─ customer(id = 1, name = 'Ada', region = 'EU')  (row of a table)",),
    ]
    assert db.query("EXPLAIN ROW eu VALUES (1)").fetchall() == lines
    more = [*lines, ("… and 1 more row like that",)]
    assert db.query("EXPLAIN ROW FOR eu WHERE id < 10").fetchall() == more
    ((text,),) = db.query("EXPLAIN (ROW, FORMAT JSON) eu VALUES ($1)", [2]).fetchall()
    assert json.loads(text) == {
        "nodes": [
            {
                "kind": "view",
                "text": "eu(id = 2)",
                "relation": "eu",
                "row": [2],
                "columns": ["id"],
                "children": [1],
            },
            {
                "kind": "source",
                "text": "customer(id = 2, name = 'Ben', region = 'EU')",
                "relation": "customer",
                "row": [2, "Ben", "EU"],
                "columns": ["id", "name", "region"],
            },
        ]
    }


def test_views_over_views_and_programs_are_one_tree(db: kpg.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT customer, sum(total) AS sum FROM sale GROUP BY customer")
    db.datalog(".decl good(c: number)\ngood(c) :- sums(c, s), s > 10.")
    db.sql("CREATE MATERIALIZED VIEW names AS SELECT name FROM customer JOIN good ON c = id")
    proof = db.explain_row("names", ("Cyd",))
    assert [child.relation for child in proof.children] == ["customer", "good"]
    texts = [node.text for node in proof.nodes()]
    assert "good(3)" in texts


def test_a_row_that_is_not_there_is_an_error(db: kpg.Database) -> None:
    db.sql("CREATE VIEW eu AS SELECT id, name FROM customer WHERE region = 'EU'")
    with pytest.raises(kpg.ProgrammingError, match=r"there is no row eu\(id = 3, name = 'Cyd'\)"):
        db.explain_row("eu", (3, "Cyd"))
    with pytest.raises(kpg.ProgrammingError, match="2 rows of eu have these values"):
        db.explain_row("eu", {})
    with pytest.raises(kpg.ProgrammingError, match='eu has no column "nam"'):
        db.explain_row("eu", {"nam": "Ada"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EXPLAIN ROW eu VALUES (1, 2)", "eu has the columns id: 2 values do not fit"),
        ("EXPLAIN ROW eu", "syntax error at the end of the statement"),
        ("EXPLAIN ROW nix VALUES (1)", 'relation "nix" does not exist'),
        ("EXPLAIN (ROW, FORMAT XML) eu VALUES (1)", 'syntax error at "XML"'),
        ("EXPLAIN ROW eu WHERE id = 3", "eu has no such row"),
    ],
)
def test_what_is_wrong_with_the_statement_is_said_with_its_place(
    db: kpg.Database, text: str, message: str
) -> None:
    db.sql("CREATE VIEW eu AS SELECT id FROM customer WHERE region = 'EU'")
    with pytest.raises(kpg.ProgrammingError, match=message) as caught:
        db.sql(text)
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("query", "row", "lines"),
    [
        (
            "SELECT name, total FROM customer c JOIN sale s ON s.customer = c.id WHERE total > 6",
            ("Ben", 5),
            [
                "fails: a row of sale with sale.total > 6 AND sale.total = 5,"
                " where sale(id = 3, customer = 2, total = 5)"
            ],
        ),
        (
            "SELECT region, sum(total) AS n FROM customer c JOIN sale s ON s.customer = c.id GROUP BY region",
            ("EU", 36),
            ["v(region = 'EU', n = 36) does not hold, but v(region = 'EU', n = 35)", "fails: another value"],
        ),
        (
            "SELECT name FROM customer WHERE id < 3 UNION SELECT region FROM customer",
            ("Dan",),
            [
                "fails: a row of customer with customer.region = 'Dan'",
                "fails: a row of customer with customer.id < 3",
            ],
        ),
        (
            "SELECT name FROM customer EXCEPT SELECT name FROM customer WHERE id = 1",
            ("Ada",),
            ["fails: the second query of EXCEPT has such a row"],
        ),
        (
            "SELECT name FROM customer ORDER BY id LIMIT 2",
            ("Cyd",),
            ["fails: the row comes after those that LIMIT keeps"],
        ),
    ],
)
def test_what_a_row_lacks_is_said(
    db: kpg.Database, query: str, row: tuple[object, ...], lines: list[str]
) -> None:
    db.sql(f"CREATE VIEW v AS {query}")
    absence = str(db.explain_absence("v", row))
    assert all(line in absence for line in lines), absence
    stated = db.query(f"EXPLAIN ROW v VALUES ({', '.join(map(repr, row))})").fetchall()
    assert "\n".join(line for (line,) in stated) == absence
    with pytest.raises(kpg.ProgrammingError, match="v has such a row"):
        db.explain_absence("v", db.query("SELECT * FROM v").fetchone())


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("row_number() OVER (PARTITION BY customer ORDER BY id DESC)", [7, 6, 5]),
        ("sum(total) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [4, 5, 6]),
        ("lag(total, 2) OVER (ORDER BY id)", [3, 4]),
        ("last_value(total) OVER (ORDER BY total RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)", [6]),
        ("min(total) OVER (ORDER BY total GROUPS 1 PRECEDING EXCLUDE CURRENT ROW)", [4]),
        ("dense_rank() OVER (ORDER BY total)", [7, 3, 4]),
        ("ntile(2) OVER (PARTITION BY customer ORDER BY id)", [4, 5, 6, 7]),
    ],
)
def test_a_window_is_explained_by_the_rows_that_it_looked_at(
    db: kpg.Database, call: str, rows: list[int]
) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW w AS SELECT id, {call} AS n FROM sale")
    proof = db.explain_row("w", {"id": 5}, sample=None)
    assert proof.children[0].row == (5, 3, 8)
    assert [child.row and child.row[0] for child in proof.children[1].children] == rows
    assert proof.children[1].count == len(rows)


def test_of_many_columns_the_first_are_shown(db: kpg.Database) -> None:
    columns = [f"c{number}" for number in range(10)]
    db.sql(f"CREATE TABLE wide ({', '.join(f'{one} INTEGER' for one in columns)})")
    db.insert("wide", [tuple(range(10))])
    db.sql("CREATE VIEW v AS SELECT c9 FROM wide")
    (source,) = db.explain_row("v", (9,)).children
    assert source.text.endswith("c7 = 7, …)") and source.row == tuple(range(10))
    assert source.columns == tuple(columns)


def test_what_is_shared_is_one_node_and_notebooks_fold(db: kpg.Database) -> None:
    db.sql("CREATE VIEW twice AS SELECT a.name FROM customer a JOIN customer b ON a.id = b.id")
    proof = db.explain_row("twice", ("Ada",))
    assert proof.size == 2
    assert proof._repr_html_().startswith("<ul><li><details open><summary><code>twice(name")


def test_a_recursive_query_is_explained_by_a_shortest_derivation(db: kpg.Database) -> None:
    db.sql("CREATE TABLE edge (x INTEGER, y INTEGER)")
    db.insert("edge", [(1, 2), (2, 3), (3, 4), (1, 4), (4, 1), (4, 5)])
    db.sql(
        "CREATE MATERIALIZED VIEW path AS WITH RECURSIVE p(x, y) AS ("
        "SELECT x, y FROM edge UNION SELECT p.x, e.y FROM p JOIN edge e ON e.x = p.y) SELECT x, y FROM p"
    )
    sources = [node.row for node in db.explain_row("path", (1, 5)).nodes() if node.relation == "edge"]
    assert sorted(sources) == [(1, 4), (4, 5)]
    db.sql("DELETE FROM edge WHERE x = 1 AND y = 4")
    sources = [node.row for node in db.explain_row("path", (1, 5)).nodes() if node.relation == "edge"]
    assert sorted(sources) == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_pending_changes_count_in_their_transaction(db: kpg.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW eu AS SELECT count(*) AS n FROM customer WHERE region = 'EU'")
    with db.transaction():
        db.sql("INSERT INTO customer VALUES (9, 'Eve', 'EU')")
        (group,) = db.explain_row("eu", (3,), sample=None).children
        assert [child.row and child.row[0] for child in group.children] == [1, 2, 9]
    assert db.explain_row("eu", (3,)).children[0].count == 3


def test_functions_in_from_and_queries_that_refer_to_each_other(db: kpg.Database) -> None:
    db.sql("CREATE VIEW copies AS SELECT name, g FROM customer, generate_series(1, id) g")
    texts = [child.text for child in db.explain_row("copies", ("Ben", 2)).children]
    assert texts == ["customer(id = 2, name = 'Ben', region = 'EU')", "GENERATE_SERIES(1, id) gives 2"]
    db.sql(
        "CREATE MATERIALIZED VIEW turns AS WITH MUTUALLY RECURSIVE"
        " p (x INTEGER) AS (SELECT id FROM customer WHERE id < 3 UNION SELECT x + 1 FROM q WHERE x < 6),"
        " q (x INTEGER) AS (SELECT x FROM p WHERE x > 1) SELECT x FROM p"
    )
    proof = db.explain_row("turns", (4,))
    assert [node.text for node in proof.nodes() if node.kind.value == "view"] == [
        "turns(x = 4)",
        "p(x = 4)",
        "q(x = 3)",
        "p(x = 3)",
        "q(x = 2)",
        "p(x = 2)",
    ]
    assert [node.row for node in proof.nodes() if node.kind.value == "source"] == [(2, "Ben", "EU")]


def test_a_window_without_such_a_row_is_not_the_reason(db: kpg.Database) -> None:
    """The first query of the UNION has rows of that id, but with other numbers."""
    db.sql(
        "CREATE MATERIALIZED VIEW v AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM sale)"
        " UNION (SELECT id, -1 FROM customer)"
    )
    proof = db.explain_row("v", (3, -1))
    assert [node.row for node in proof.nodes() if node.kind.value == "source"] == [(3, "Cyd", "US")]


def test_a_limit_of_which_no_column_is_read_is_explained(db: kpg.Database) -> None:
    db.sql("CREATE VIEW v AS SELECT c.id FROM customer c, (SELECT 1 AS one FROM sale LIMIT 2) AS few")
    proof = db.explain_row("v", (4,))
    assert {node.relation for node in proof.nodes() if node.kind.value == "source"} == {"customer", "sale"}


def test_all_of_equal_rows_of_a_recursion_are_explained_where_they_are_counted(db: kpg.Database) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(n) AS"
        " (SELECT 1 FROM sale WHERE customer = 3 UNION ALL SELECT n + 1 FROM r WHERE n < 2)"
        " SELECT n, count(*) AS times FROM r GROUP BY n"
    )
    proof = db.explain_row("v", (2, 4), sample=None)
    assert sorted(tuple(node.row or ()) for node in proof.nodes() if node.kind.value == "source") == [
        (4, 3, 7),
        (5, 3, 8),
        (6, 3, 9),
        (7, 3, 1),
    ]


def test_of_except_all_every_row_of_the_first_query_is_told(db: kpg.Database) -> None:
    """The second query has the row, too, of a row of a table that is the first way to get it in the first."""
    db.sql(
        "CREATE VIEW v AS SELECT customer FROM sale WHERE customer = 3"
        " EXCEPT ALL SELECT customer FROM sale WHERE id < 7"
    )
    proof = db.explain_row("v", (3,), sample=None)
    sources = sorted(tuple(node.row or ()) for node in proof.nodes() if node.kind.value == "source")
    assert sources == [(4, 3, 7), (5, 3, 8), (6, 3, 9), (7, 3, 1)]


def test_a_subquery_in_an_aggregate_tells_what_it_found(db: kpg.Database) -> None:
    db.sql(
        "CREATE VIEW v AS SELECT region, max((SELECT min(total) FROM sale s WHERE s.customer = c.id))"
        " AS least FROM customer c GROUP BY region"
    )
    proof = db.explain_row("v", ("US", 1), sample=None)
    sources = {(node.relation, node.row) for node in proof.nodes() if node.kind.value == "source"}
    assert {row for relation, row in sources if relation == "sale"} == {
        (4, 3, 7),
        (5, 3, 8),
        (6, 3, 9),
        (7, 3, 1),
    }
