"""Numbers by chance and of sequences: one for each row, the same however often it is computed."""

import numpy as np
import pytest

import kpg
from kpg.runtime.functions.mathematics import SEQUENCE_CALLS, splitmix64


def test_bits_of_chance_are_those_of_splitmix64() -> None:
    """The first numbers of the generator seeded with 1234567, as its authors' code gives them."""
    salt = np.full(3, 1234567, np.int64)
    assert splitmix64(np.arange(3), salt).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_rows_are_counted_once() -> None:
    token = SEQUENCE_CALLS.begin()
    assert SEQUENCE_CALLS.positions(np.array([7, 3]), token).tolist() == [0, 1]
    assert SEQUENCE_CALLS.positions(np.array([3, 9, 7]), token).tolist() == [1, 2, 0]
    assert SEQUENCE_CALLS.end(token) == 3


def test_a_query_that_fails_takes_nothing_of_the_next() -> None:
    db = kpg.connect()
    db.sql("create sequence s; create table t (a int); insert into t values (1), (0)")
    with pytest.raises(kpg.DataError):
        db.sql("select nextval('s'), 1 / a from t")
    first = db.query("select nextval('s') from t").fetchall()
    assert len({number for (number,) in first}) == 2
    assert db.query("select nextval('s')").fetchall()[0][0] > max(first)[0]


def test_views_are_not_left_to_chance() -> None:
    db = kpg.connect()
    db.sql("create table t (a int)")
    with pytest.raises(kpg.NotSupportedError):
        db.sql("create materialized view v as select random() as r from t")
    with pytest.raises(kpg.NotSupportedError):
        db.sql("create materialized view v as select gen_random_uuid() as r from t")


def test_uuids_by_the_name_of_the_extension() -> None:
    """As schemas have it that were written for uuid-ossp."""
    db = kpg.connect()
    db.sql('CREATE EXTENSION IF NOT EXISTS "uuid-ossp"')
    db.sql("CREATE TABLE t (id UUID PRIMARY KEY DEFAULT uuid_generate_v4(), n INT)")
    db.sql("INSERT INTO t (n) VALUES (1), (2); INSERT INTO t (n) SELECT * FROM generate_series(3, 5)")
    ids = [one for (one,) in db.query("SELECT id FROM t").fetchall()]
    assert (len(set(ids)), {one.version for one in ids}) == (5, {4})
    db.sql("UPDATE t SET id = uuid_generate_v4()")
    assert db.query("SELECT count(DISTINCT id), count(*) FROM t").fetchall() == [(5, 5)]
    assert not {one for (one,) in db.query("SELECT id FROM t").fetchall()} & set(ids)
