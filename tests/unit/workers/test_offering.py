"""What workers offer of a view is all of it, to who has the secret, until it is withdrawn."""

import numpy as np
import pyarrow as pa
import pytest

import kpg
from kpg.runtime.cluster.transfer import AuthenticationError, Export, common_schema, fetch_table, schema_of
from kpg.runtime.errors import InterfaceError
from tests.unit.workers.apart import apart

HERE = "127.0.0.1"


def test_a_table_is_fetched_any_number_of_times_until_it_is_withdrawn() -> None:
    table = pa.table({"k": np.arange(300_000), "s": ["x", None, "y"] * 100_000})
    offer = Export(table, HERE, b"s" * 32)
    for _ in range(2):
        assert fetch_table((HERE, offer.port), b"s" * 32) == table
    with pytest.raises((AuthenticationError, OSError)):
        fetch_table((HERE, offer.port), b"t" * 32)
    offer.close()
    with pytest.raises((AuthenticationError, OSError)):
        fetch_table((HERE, offer.port), b"s" * 32)


def test_the_parts_of_all_workers_are_the_view() -> None:
    with apart(2, 0) as db:
        db.sql("create table t(k int primary key, g text, v int)")
        db.sql("create materialized view every as select g || '!' as g, v from t order by g limit 1000")
        db.sql("create materialized view sums as select g, sum(v) as s from t group by g")
        db.sql("insert into t select i, 'g' || i % 50, i % 7 from generate_series(1, 500) g(i)")
        for name in ("every", "sums"):
            maintained = db.view(name)._maintained
            reader = maintained.reader
            with maintained.installation.export(reader.names, reader.visible_types) as offered:
                parts = [fetch_table(place, offered.secret) for place in offered.addresses]
            found = [tuple(row.values()) for part in parts for row in part.to_pylist()]
            assert sorted(found) == sorted(db.sql(f"select * from {name}").fetchall())
            if name == "sums":
                assert len(parts) == 2 and all(len(part) > 5 for part in parts)
            with pytest.raises((AuthenticationError, OSError)):
                fetch_table(offered.addresses[0], offered.secret)


def test_types_that_all_places_can_have() -> None:
    nothing = pa.schema([("k", pa.int64()), ("v", pa.string())])

    def place(type_: pa.DataType, *values: object) -> pa.Schema:
        return schema_of(pa.table({"k": pa.array(range(len(values))), "v": pa.array(values, type_)}))

    small, large, none = (
        place(pa.decimal128(5, 2), 1, None),
        place(pa.decimal128(9, 0), 7),
        place(pa.string(), None),
    )
    assert common_schema([small, none], nothing).field("v").type == pa.decimal128(5, 2)
    assert common_schema([none, small, large], nothing).field("v").type == pa.decimal128(11, 2)
    assert common_schema([small, place(pa.decimal128(38, 0), 1)], nothing).field("v").type == pa.string()
    assert common_schema([small, place(pa.string(), "NaN")], nothing).field("v").type == pa.string()
    assert common_schema([none], nothing) == common_schema([], nothing) == nothing
    assert pa.array([1, None], pa.decimal128(5, 2)).cast(pa.string()).to_pylist() == ["1.00", None]


def test_contents_that_are_not_at_workers_are_not_offered() -> None:
    with kpg.connect() as db:
        db.sql("create table t(k int primary key); create materialized view v as select k from t")
        with pytest.raises(InterfaceError, match="Spark reads views from workers on Spark"):
            db.view("v").to_spark()
