"""Updates of the tables that RF1 and RF2 leave alone, so that queries see changes in all they read.

Half of the new values are drawn from those that the queries' parameters select (``HOT_PARTS``,
``HOT_NATIONS``): otherwise most updates of a small refresh would reach no query.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kpg.tpch.batch import TableChange
from kpg.tpch.columns import Integers, cents, file_schema, money
from kpg.tpch.generate import table_path
from kpg.tpch.schema import PRIMARY_KEYS

HOT_PARTS: Final[Sequence[Mapping[str, str | int]]] = (
    {"p_brand": "Brand#23", "p_container": "MED BOX"},
    {"p_type": "ECONOMY ANODIZED STEEL"},
    {"p_type": "LARGE POLISHED BRASS", "p_size": 15},
    {"p_name": "forest green azure linen puff"},
    {"p_brand": "Brand#12", "p_container": "SM CASE", "p_size": 3},
    {"p_brand": "Brand#23", "p_container": "MED BAG", "p_size": 7},
    {"p_brand": "Brand#34", "p_container": "LG BOX", "p_size": 11},
    {"p_type": "PROMO BURNISHED COPPER", "p_size": 49},
)
HOT_NATIONS: Final = (2, 3, 6, 7, 20)
COMPLAINT: Final = "furiously ironic Customer deposits cajole Complaints above the theodolites"
SEGMENTS: Final = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
CANDIDATES: Final = 50_000
"""Rows of a table's file of which those to be changed are chosen."""
HOT_PARTS_KEPT: Final = 256
"""Parts that selective queries look for, the latest: new lines are given some of them."""

Values = npt.NDArray[Any]


class Candidates:
    """The rows of a table that updates are drawn from, with their current values."""

    def __init__(self, folder: Path, table: str) -> None:
        self._key = list(PRIMARY_KEYS[table])
        file = pq.ParquetFile(table_path(folder, table))
        first = pa.Table.from_batches([next(file.iter_batches(CANDIDATES))])
        self.rows = first.cast(file_schema(folder, table)).combine_chunks()

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def values(self, column: str, positions: Integers) -> Values:
        """Current values of a column at ``positions``."""
        taken: Values = self.rows[column].take(pa.array(positions)).to_numpy(zero_copy_only=False)
        return taken

    def update(self, positions: Integers, columns: Mapping[str, pa.Array | Values]) -> TableChange:
        """Set columns of the rows at ``positions`` (ascending, distinct)."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[positions] = True
        deletes = self.rows.select(self._key).filter(pa.array(mask))
        for name, new in columns.items():
            index = self.rows.schema.get_field_index(name)
            field = self.rows.schema.field(index)
            old = self.rows.column(index).combine_chunks()
            merged = pc.replace_with_mask(old, pa.array(mask), pa.array(new, field.type))
            self.rows = self.rows.set_column(index, field, merged)
        return TableChange(deletes, self.rows.filter(pa.array(mask)))


class Updates:
    """The rows of the six tables beside orders and lineitem, and the means to change them."""

    def __init__(self, folder: Path, random: np.random.Generator) -> None:
        self._random = random
        self._tables = {
            table: Candidates(folder, table)
            for table in ("region", "nation", "supplier", "customer", "part", "partsupp")
        }
        part = self._tables["part"]
        self._part_names = pc.unique(part.rows["p_name"]).slice(0, 4096).to_numpy(zero_copy_only=False)
        self._vocabulary = {
            column: part.rows[column].unique().sort().to_numpy(zero_copy_only=False)
            for column in ("p_brand", "p_type", "p_size", "p_container")
        } | {"p_name": self._part_names}
        retail = pq.read_table(table_path(folder, "part"), columns=["p_partkey", "p_retailprice"])
        self.prices: Integers = cents(retail.sort_by("p_partkey")["p_retailprice"])
        self.hot_parts: Integers = np.empty(0, dtype=np.int64)

    def refresh(self, number: int, orders: int) -> dict[str, TableChange]:
        """The updates of refresh ``number``, as many as suit one of ``orders`` orders."""
        changes = {
            "part": self._parts(max(4, orders // 10)),
            "partsupp": self._stock(max(8, orders // 5)),
            "supplier": self._suppliers(max(2, orders // 100)),
            "customer": self._customers(max(4, orders // 10)),
        }
        if number % 3 == 0:
            changes["nation"] = self._nations(number)
        if number % 5 == 0:
            changes["region"] = self._swap("region", "r_name", self._sample("region", 2))
        return changes

    def _sample(self, table: str, count: int) -> Integers:
        size = len(self._tables[table])
        return np.sort(self._random.choice(size, size=min(count, size), replace=False))

    def _parts(self, count: int) -> TableChange:
        positions = self._sample("part", count)
        count = len(positions)
        part = self._tables["part"]
        keys = part.values("p_partkey", positions)
        kind = self._random.integers(-2 * len(HOT_PARTS), len(HOT_PARTS), count)
        new = {column: part.values(column, positions) for column in self._vocabulary}
        for column, vocabulary in self._vocabulary.items():
            redrawn = kind < -len(HOT_PARTS)
            new[column] = np.where(redrawn, self._random.choice(vocabulary, count), new[column])
            for template, values in enumerate(HOT_PARTS):
                if column in values:
                    new[column] = np.where(kind == template, values[column], new[column])
        makers = np.array([f"Manufacturer#{brand[6]}" for brand in new["p_brand"]], dtype=object)
        self.prices[keys - 1] = self.prices[keys - 1] * self._random.integers(80, 126, count) // 100
        self.hot_parts = np.concatenate([self.hot_parts, keys[kind >= 0]])[-HOT_PARTS_KEPT:]
        price = money(self.prices[keys - 1])
        return part.update(positions, {**new, "p_mfgr": makers, "p_retailprice": price})

    def _stock(self, count: int) -> TableChange:
        stock = self._tables["partsupp"]
        hot = np.flatnonzero(np.isin(stock.rows["ps_partkey"].to_numpy(), self.hot_parts[-count:]))
        positions = np.union1d(hot[:count], self._sample("partsupp", count))
        count = len(positions)
        scarce = self._random.random(count) < 0.25
        quantity = np.where(
            scarce, self._random.integers(1, 100, count), self._random.integers(1, 10_000, count)
        )
        cost = money(self._random.integers(100, 100_001, count))
        return stock.update(positions, {"ps_availqty": quantity.astype(np.int32), "ps_supplycost": cost})

    def _suppliers(self, count: int) -> TableChange:
        positions = self._sample("supplier", count)
        count = len(positions)
        supplier = self._tables["supplier"]
        kind = self._random.integers(0, 3, count)
        comment = np.where(kind == 0, COMPLAINT, supplier.values("s_comment", positions))
        calm = np.where(kind == 1, "blithely regular packages haggle", comment)
        moves = self._random.integers(0, 2, count) == 0
        nation = np.where(moves, self._nation_keys(count), supplier.values("s_nationkey", positions))
        return supplier.update(
            positions,
            {
                "s_acctbal": self._balances(count),
                "s_comment": calm.astype(object),
                "s_nationkey": nation,
                "s_phone": self._phones(nation),
            },
        )

    def _customers(self, count: int) -> TableChange:
        positions = self._sample("customer", count)
        count = len(positions)
        customer = self._tables["customer"]
        moves = self._random.integers(0, 2, count) == 0
        nation = np.where(moves, self._nation_keys(count), customer.values("c_nationkey", positions))
        segment = np.where(
            self._random.integers(0, 2, count) == 0,
            self._random.choice(SEGMENTS, count),
            customer.values("c_mktsegment", positions),
        )
        return customer.update(
            positions,
            {
                "c_acctbal": self._balances(count),
                "c_mktsegment": segment.astype(object),
                "c_nationkey": nation,
                "c_phone": self._phones(nation),
            },
        )

    def _nations(self, number: int) -> TableChange:
        """Move a nation to another region, or let two nations trade names, by turns."""
        hot = self._random.choice(HOT_NATIONS)
        other = self._random.choice(np.setdiff1d(np.arange(25), HOT_NATIONS))
        if number % 2 == 0:
            return self._swap("nation", "n_name", np.sort(np.array([hot, other])))
        nation = self._tables["nation"]
        positions = np.array([hot])
        shift = self._random.integers(1, 5, 1)
        return nation.update(
            positions, {"n_regionkey": (nation.values("n_regionkey", positions) + shift) % 5}
        )

    def _swap(self, table: str, column: str, positions: Integers) -> TableChange:
        rows = self._tables[table]
        return rows.update(positions, {column: rows.values(column, positions)[::-1]})

    def _nation_keys(self, count: int) -> Integers:
        hot = self._random.choice(HOT_NATIONS, count)
        return np.where(self._random.random(count) < 0.5, hot, self._random.integers(0, 25, count))

    def _balances(self, count: int) -> pa.Array:
        return money(self._random.integers(-99_999, 1_000_000, count))

    def _phones(self, nations: Integers) -> Values:
        numbers = self._random.integers((100, 100, 1000), (1000, 1000, 10_000), (len(nations), 3))
        phones = [f"{10 + n}-{a}-{b}-{c}" for n, (a, b, c) in zip(nations, numbers, strict=True)]
        return np.array(phones, dtype=object)
