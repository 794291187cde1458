"""Collections and SQL, both ways."""

import datetime
from decimal import Decimal

import pytest

import kpg
from tests.unit.collections.test_loops import reach
from tests.unit.collections.watching import step, watch


@pytest.fixture(autouse=True)
def tables(db: kpg.Database) -> None:
    db.sql("""
        CREATE TABLE product (id INT PRIMARY KEY, kind TEXT, price DECIMAL(10, 2) NOT NULL, since DATE);
        INSERT INTO product VALUES (1, 'tea', 2.50, '1998-12-01'), (2, 'tea', 4, NULL), (3, 'jam', 1, NULL)
    """)


def test_a_table_is_a_collection(db: kpg.Database, flow: kpg.Dataflow) -> None:
    product = flow.import_("PRODUCT")
    assert product.columns == ["id", "kind", "price", "since"]
    whole = watch(product)
    assert whole.new() == [
        ((1, "tea", Decimal("2.50"), datetime.date(1998, 12, 1)), 1, 1),
        ((2, "tea", Decimal("4.00"), None), 1, 1),
        ((3, "jam", Decimal("1.00"), None), 1, 1),
    ]
    prices = watch(product.sum("price", key="kind"))
    cheapest = watch(product.top_k(1, by="price", key="kind").project("kind", "id"))
    last = watch(product.max("kind"))
    python = watch(
        product.reduce(lambda key, rows: [max(row[1] for row, _ in rows)], key="kind", price="DECIMAL(10,2)")
    )
    db.sql("UPDATE product SET price = 3 WHERE id = 2; DELETE FROM product WHERE id = 1")
    assert prices.at() == {("tea", Decimal("3.00")): 1, ("jam", Decimal("1.00")): 1}
    assert cheapest.at() == {("tea", 2): 1, ("jam", 3): 1}
    assert last.at() == {("tea",): 1}
    assert python.at() == {("tea", Decimal("3.00")): 1, ("jam", Decimal("1.00")): 1}


def test_the_index_of_a_table_is_shared_with_queries(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE sold (product INT, n INT)")
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT price * n AS total FROM sold JOIN product ON id = sold.product"
    )
    before = [row[0] for row in db.arrangements()]
    product, sold = flow.import_("product"), flow.import_("sold")
    seen = watch(sold.join(product, {"product": "id"}, lambda s, p: (p.kind, s.n)))
    assert [row[0] for row in db.arrangements()] == before
    assert [row[4] for row in db.arrangements()] == ["dataflow flow/1, v", "dataflow flow/1, v", "v"]
    db.sql("INSERT INTO sold VALUES (1, 5), (9, 1)")
    assert seen.at() == {("tea", 5): 1}


def test_views_are_collections(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE VIEW plain AS SELECT 1 AS one")
    db.sql(
        "CREATE MATERIALIZED VIEW kinds AS SELECT kind, count(*) n FROM product GROUP BY 1 ORDER BY min(id)"
    )
    kinds = flow.import_("kinds")
    assert kinds.columns == ["kind", "n"]
    seen = watch(kinds.filter(lambda r: r.n > 1))
    db.sql("INSERT INTO product VALUES (4, 'jam', 9, NULL)")
    assert seen.at() == {("tea", 2): 1, ("jam", 2): 1}
    assert watch(flow.import_("plain")).at() == {(1,): 1}
    with pytest.raises(kpg.ProgrammingError, match='did you mean "kinds"'):
        flow.import_("kindz")


def test_a_view_that_is_not_kept_is_planned_where_it_is_imported(
    db: kpg.Database, flow: kpg.Dataflow
) -> None:
    db.sql(
        "CREATE VIEW dear AS SELECT kind, count(*) AS n FROM product WHERE id > 1 GROUP BY 1 ORDER BY min(id)"
    )
    db.sql(
        """CREATE VIEW "Below ""ten" AS WITH RECURSIVE up(n) AS (SELECT min(id) FROM product
        UNION SELECT n + 1 FROM up WHERE n < 4) SELECT n, kind FROM up LEFT JOIN dear USING (n)"""
    )
    dear, below = flow.import_("dear"), flow.import_('Below "ten')
    assert (dear.columns, below.columns) == (["kind", "n"], ["n", "kind"])
    assert [str(type_) for type_ in below.types] == ["INTEGER", "VARCHAR"]
    seen, some = watch(below), watch(dear.join(flow.constant([1], n=int), "n"))
    assert seen.at() == dict.fromkeys(map(tuple, db.query('SELECT * FROM "Below ""ten"')), 1)
    db.sql("INSERT INTO product VALUES (7, 'jam', 9, NULL)")
    assert seen.at() == dict.fromkeys(map(tuple, db.query('SELECT * FROM "Below ""ten"')), 1)
    assert {row[0]: n for row, n in some.at().items()} == {
        kind: 1 for kind, n in db.query("SELECT * FROM dear") if n == 1
    }
    kept = len(db.operators())
    db.sql("CREATE MATERIALIZED VIEW twin AS SELECT * FROM dear")
    assert len(db.operators()) - kept <= 2  # what the view needs is there
    with pytest.raises(kpg.ProgrammingError, match="dear"):
        db.sql("DROP VIEW dear")
    flow.drop()


def test_an_export_explains_itself(db: kpg.Database, flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    product = flow.import_("product")
    edges.join(product, {"dst": "id"}, lambda e, p: {"src": e.src, "kind": p.kind}).export("linked")
    view = db.view("linked")
    assert view.sql == ""
    lines = view.explain().splitlines()
    assert any("Input edges" in line for line in lines) and any("Source product" in line for line in lines)
    assert any(" DeltaJoin " in line for line in lines) and lines[-1].startswith("output %")
    assert "product by (id): " in view.explain("arrangements")
    with pytest.raises(
        kpg.InterfaceError, match='"linked" is an exported collection: it has no stage "logical"'
    ):
        view.explain("logical")


def test_a_collection_is_a_view(db: kpg.Database, flow: kpg.Dataflow) -> None:
    edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
    reach(edges, roots).export("reach")
    assert db.query("SELECT * FROM reach").fetchall() == []
    edges.insert([(1, 2), (2, 3), (8, 9)])
    roots.insert(1)
    step(flow, edges, roots)
    assert sorted(db.query("SELECT * FROM reach").fetchall()) == [(1,), (2,), (3,)]
    assert db.query("SELECT kind FROM product JOIN reach ON id = node ORDER BY id").fetchall() == [
        ("tea",),
        ("tea",),
        ("jam",),
    ]
    db.sql(
        "CREATE MATERIALIZED VIEW names AS SELECT kind, count(*) FROM product, reach WHERE id=node GROUP BY 1"
    )
    assert ("reach", "materialized view") in [tuple(row)[:2] for row in db.views()]
    view = db.view("reach")
    assert (len(view), view.columns, view.types) == (3, ["node"], [kpg.types.BIGINT])
    assert sorted(view.changes()) == [((1,), 2, 1), ((2,), 2, 1), ((3,), 2, 1)]
    edges.remove(2, 3)
    step(flow, edges, roots)
    assert list(view.changes()) == [((3,), db.epoch, -1)]
    assert db.query("SELECT * FROM names").fetchall() == [("tea", 2)]
    back = watch(flow.import_("names"))
    assert back.at() == {("tea", 2): 1}


def test_an_export_is_read_by_other_dataflows_without_a_copy(db: kpg.Database, flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    exported = edges.arrange_by_key("dst").export("edges_by_dst")
    assert (exported.key, exported.columns) == (("dst",), ["dst", "src"])
    edges.insert([(1, 2), (3, 2)])
    step(flow, edges)
    other = db.dataflow("other")
    found = other.import_("edges_by_dst")
    assert isinstance(found, kpg.Arranged) and found.key == ("dst",)
    wanted = other.input("wanted", dst=int)
    seen = watch(wanted.join(found, key="dst"))
    wanted.insert(2)
    step(flow, edges, wanted)
    assert seen.at() == {(2, 1): 1, (2, 3): 1}
    indexes = [row for row in db.arrangements() if "edges_by_dst" in row[4]]
    assert [(row[1], "other" in row[4]) for row in indexes] == [(2, True)]
    assert db.query("SELECT src FROM edges_by_dst WHERE dst = 2 ORDER BY src").fetchall() == [(1,), (3,)]


def test_multiplicities_of_an_export(db: kpg.Database, flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int | None)
    a.export("a_rows")
    a.insert([1, 1, None])
    step(flow, a)
    assert db.query("SELECT x, count(*) FROM a_rows GROUP BY x ORDER BY x").fetchall() == [(1, 2), (None, 1)]


def test_what_is_used_is_not_dropped(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE MATERIALIZED VIEW dear AS SELECT id FROM product WHERE price > 3")
    seen = watch(flow.import_("dear"))
    flow.import_("product").count("kind").export("kinds")
    db.sql("CREATE MATERIALIZED VIEW over AS SELECT kind FROM kinds")
    for name, kind in (("product", "TABLE"), ("dear", "VIEW"), ("kinds", "VIEW")):
        with pytest.raises(kpg.ProgrammingError, match=f'"{name}" cannot be dropped'):
            db.sql(f"DROP {kind} {name}")
    with pytest.raises(kpg.ProgrammingError, match='the dataflow cannot be dropped: "over" uses "kinds"'):
        flow.drop()
    db.sql("INSERT INTO product VALUES (7, 'ham', 7, NULL)")
    assert seen.at() == {(2,): 1, (7,): 1}
    db.sql("DROP VIEW over")
    flow.drop()
    assert [row[0] for row in db.views()] == ["dear"]
    db.sql("DROP VIEW dear; DROP TABLE product")


def test_dropping_an_export_by_sql(db: kpg.Database, flow: kpg.Dataflow) -> None:
    flow.import_("product").count("kind").export("kinds")
    with pytest.raises(kpg.ProgrammingError, match='"kinds" already exists'):
        flow.import_("product").export("kinds")
    with pytest.raises(kpg.InterfaceError, match="no query to verify"):
        db.verify("kinds")
    db.sql("DROP VIEW kinds")
    flow.import_("product").count("kind").export("kinds")
    db.sql("DROP TABLE product CASCADE")
    assert [row[0] for row in db.views()] == []
    with pytest.raises(kpg.InterfaceError, match="was dropped"):
        flow.input("x", x=int)


def test_an_export_inside_a_transaction_is_as_before_it(db: kpg.Database, flow: kpg.Dataflow) -> None:
    flow.import_("product").count("kind").export("kinds")
    with db.transaction():
        db.sql("DELETE FROM product WHERE kind = 'jam'")
        assert db.query("SELECT count(*) FROM kinds").fetchall() == [(2,)]
    assert db.query("SELECT count(*) FROM kinds").fetchall() == [(1,)]


def test_an_index_survives_the_vacuum(
    db: kpg.Database, flow: kpg.Dataflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of a table holds the rows of groups that were rewritten, and of some that are gone."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 8 << 2)
    db.sql("CREATE TABLE n (x BIGINT)")
    seen = watch(flow.import_("n").join(flow.import_("n").arrange_by_key("x"), key="x"))
    for _ in range(3):
        db.insert("n", [(x,) for x in range(10)])
        db.sql("DELETE FROM n WHERE x > 1")
    assert seen.at() == {(0,): 9, (1,): 9}
