"""Sums and products of DECIMALs that a word of 18 digits cannot hold."""

from decimal import Decimal

import pytest

import kpg

LARGE = "9999999999999999.99"


def amounts() -> kpg.Database:
    db = kpg.connect()
    db.sql("CREATE TABLE amounts (id INT PRIMARY KEY, d NUMERIC(18, 2))")
    db.sql(f"INSERT INTO amounts VALUES (1, {LARGE})")
    return db


def test_a_query_that_overflows_is_computed_with_numerics() -> None:
    db = amounts()
    for id_ in (2, 3):
        db.sql("INSERT INTO amounts VALUES (?, 0.01)", [id_])
        expected = Decimal(LARGE) * 2 + (id_ - 1) * Decimal("0.02")
        assert db.query("SELECT sum(d + d) FROM amounts").fetchall() == [(expected,)]


def test_a_view_made_over_such_rows_follows() -> None:
    db = amounts()
    db.sql("CREATE MATERIALIZED VIEW twice AS SELECT sum(d * 2) AS twice FROM amounts")
    assert list(db.view("twice")) == [(Decimal(LARGE) * 2,)]
    db.sql(f"INSERT INTO amounts VALUES (2, {LARGE})")
    assert list(db.view("twice")) == [(Decimal(LARGE) * 4,)]
    db.sql("DELETE FROM amounts WHERE id = 1")
    assert list(db.view("twice")) == [(Decimal(LARGE) * 2,)]


def test_a_later_overflow_of_a_view_is_refused_with_its_commit() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE amounts (d NUMERIC(18, 2))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(d) AS s FROM amounts")
    db.sql(f"INSERT INTO amounts VALUES ({LARGE})")
    with pytest.raises(kpg.DataError, match="overflows DECIMAL"):
        db.sql(f"INSERT INTO amounts VALUES ({LARGE})")
    assert list(db.view("v")) == [(Decimal(LARGE),)]


def test_in_a_transaction_too() -> None:
    db = amounts()
    db.sql("BEGIN; INSERT INTO amounts VALUES (2, 1)")
    assert db.query("SELECT sum(d) * 10 FROM amounts").fetchall() == [((Decimal(LARGE) + 1) * 10,)]
    db.sql("COMMIT")
