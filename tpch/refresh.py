"""A deterministic stream of refreshes over generated TPC-H data.

A refresh is one transaction. It deletes old orders with their lineitems and inserts as many new
ones (RF1 and RF2 of the specification). It also updates prices, parts, stock, customers and
suppliers, and occasionally nations and regions.

Columns follow the distributions of section 4.2.3 of the specification, with two exceptions. Without
them a small refresh would affect few queries. A small share of new orders is large (query 18), has
a comment on special requests (13), or has the parts and shipping that queries 17 and 19 select.
Half of the updated values are drawn from the queries' parameters (``HOT_PARTS``, ``HOT_NATIONS``).
"""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kpg.runtime.records import dataclass
from kpg.tpch.data import PRIMARY_KEYS, table_path


@dataclass(frozen=True, slots=True)
class TableChange:
    """Changes of one table: first ``deletes``, by primary key, then ``inserts``, whole rows.

    An updated row is in both.
    """

    deletes: pa.Table
    inserts: pa.Table


@dataclass(frozen=True, slots=True)
class Batch:
    """One refresh, by table. ``number`` counts from 1."""

    number: int
    changes: Mapping[str, TableChange]

    @property
    def rows(self) -> int:
        """Number of rows deleted and inserted, in all tables."""
        return sum(change.deletes.num_rows + change.inserts.num_rows for change in self.changes.values())


Integers = npt.NDArray[np.int64]

MONEY: Final = pa.decimal128(15, 2)


def money_column(cents: Integers) -> pa.Array:
    """Return a DECIMAL(15, 2) column of amounts in hundredths."""
    words = np.empty((len(cents), 2), dtype=np.int64)
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    return pa.Array.from_buffers(MONEY, len(cents), [None, pa.py_buffer(words)])


def column_cents(column: pa.Array | pa.ChunkedArray) -> Integers:
    """Return the hundredths of a DECIMAL(15, 2) column without NULLs. Inverse of :func:`money_column`."""
    scaled = column.cast(pa.decimal128(17, 2)).cast(pa.float64()).to_numpy(zero_copy_only=False) * 100
    result: Integers = np.rint(scaled).astype(np.int64)
    return result


def date_column(days: Integers) -> pa.Array:
    """Return a DATE column of days since 1970-01-01."""
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def text_column(vocabulary: Sequence[str] | pa.Array, codes: Integers) -> pa.Array:
    """Return the strings of ``vocabulary`` at the positions ``codes``."""
    return pa.array(vocabulary, pa.string()).take(pa.array(codes))


def file_schema(folder: Path, table: str) -> pa.Schema:
    """Return the Arrow schema of a table's file, with plain strings."""
    schema = pq.read_schema(table_path(folder, table)).remove_metadata()
    return pa.schema([_plain_string(field) for field in schema])


def build_table(schema: pa.Schema, columns: Mapping[str, pa.Array | Integers]) -> pa.Table:
    """Return a table of the given schema from columns by name."""
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _plain_string(field: pa.Field) -> pa.Field:
    is_text = pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type)
    return pa.field(field.name, pa.string() if is_text else field.type, nullable=field.nullable)


PRIORITIES: Final = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS: Final = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES: Final = ("AIR", "REG AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
SPECIAL: Final = (
    "special deposits wake; furious requests sleep",
    "carefully special packages nag among the pending requests",
    "blithely special requests haggle along the ironic accounts",
)
FIRST_DAY: Final = (date(1992, 1, 1) - date(1970, 1, 1)).days
LAST_DAY: Final = (date(1998, 8, 2) - date(1970, 1, 1)).days
CURRENT_DAY: Final = (date(1995, 6, 17) - date(1970, 1, 1)).days
MAX_COMMENTS: Final = 4096
"""Number of generated comments that new rows choose from."""
LARGE_SHARE: Final = 0.02
"""Share of new orders with a quantity that q18 selects."""
SPECIAL_SHARE: Final = 0.1
"""Share of new orders with a comment that q13 excludes."""
HOT_SHARE: Final = 0.2
"""Share of new lineitems with parts that selective queries select."""


class OrderGenerator:
    """The keys of the existing orders, and a generator of new ones."""

    def __init__(self, folder: Path, random: np.random.Generator) -> None:
        self._random = random
        lines = pq.read_table(table_path(folder, "lineitem"), columns=["l_orderkey"])
        self._keys, self._line_counts = np.unique(lines["l_orderkey"].to_numpy(), return_counts=True)
        pairs = pq.read_table(table_path(folder, "partsupp"), columns=["ps_partkey", "ps_suppkey"])
        self._pairs = np.stack([pairs["ps_partkey"].to_numpy(), pairs["ps_suppkey"].to_numpy()])
        self._customers = pq.ParquetFile(table_path(folder, "customer")).metadata.num_rows
        self._clerks = max(1, len(self._keys) // 1500)
        self._order_comments = [*_first_strings(folder, "orders", "o_comment"), *SPECIAL]
        self._line_comments = _first_strings(folder, "lineitem", "l_comment")
        self._schemas = {table: file_schema(folder, table) for table in ("orders", "lineitem")}
        self._created = 0

    def __len__(self) -> int:
        return len(self._keys)

    def refresh(self, count: int, prices: Integers, hot_parts: Integers) -> dict[str, TableChange]:
        """Delete ``count`` orders with their lineitems and insert as many new ones.

        ``prices`` are in cents, by part key - 1. ``hot_parts`` are keys of parts that queries select often.
        """
        old_orders, old_lines = self._delete(min(count, len(self._keys)))
        new_orders, new_lines = self._insert(count, prices, hot_parts)
        return {"orders": TableChange(old_orders, new_orders), "lineitem": TableChange(old_lines, new_lines)}

    def _delete(self, count: int) -> tuple[pa.Table, pa.Table]:
        positions = self._random.choice(len(self._keys), size=count, replace=False)
        keys, counts = self._keys[positions], self._line_counts[positions]
        self._keys = np.delete(self._keys, positions)
        self._line_counts = np.delete(self._line_counts, positions)
        linenumbers = pa.array(_line_numbers(counts)).cast(pa.int32())
        return (
            pa.table({"o_orderkey": keys}),
            pa.table({"l_orderkey": np.repeat(keys, counts), "l_linenumber": linenumbers}),
        )

    def _insert(self, count: int, prices: Integers, hot_parts: Integers) -> tuple[pa.Table, pa.Table]:
        keys = self._new_keys(count)
        large = self._random.random(count) < LARGE_SHARE
        counts = np.where(large, 7, self._random.integers(1, 8, count))
        self._keys = np.concatenate([self._keys, keys])
        self._line_counts = np.concatenate([self._line_counts, counts])
        order_days = self._random.integers(FIRST_DAY, LAST_DAY + 1, count)
        quantities = self._random.integers(np.repeat(np.where(large, 42, 1), counts), 51)
        lines = self._lines(np.repeat(keys, counts), _line_numbers(counts), np.repeat(order_days, counts))
        parts, charges = self._line_items(quantities, prices, hot_parts)
        starts = np.cumsum(counts) - counts
        orders = {
            "o_orderkey": keys,
            "o_custkey": self._customer_keys(count),
            "o_orderstatus": _order_status(lines["l_shipdate"].cast(pa.int32()).to_numpy(), starts, counts),
            "o_totalprice": money_column(np.add.reduceat(charges, starts)),
            "o_orderdate": date_column(order_days),
            "o_orderpriority": self._random_texts(PRIORITIES, count),
            "o_clerk": [f"Clerk#{n:09d}" for n in self._random.integers(1, self._clerks + 1, count)],
            "o_shippriority": np.zeros(count, dtype=np.int32),
            "o_comment": self._order_remarks(count),
        }
        return build_table(self._schemas["orders"], orders), build_table(
            self._schemas["lineitem"], lines | parts
        )

    def _new_keys(self, count: int) -> Integers:
        """Return unused keys. Generated orders use the first 8 of every 32."""
        ordinals = np.arange(self._created, self._created + count)
        self._created += count
        return ordinals // 24 * 32 + 8 + ordinals % 24

    def _customer_keys(self, count: int) -> Integers:
        """Return customers with orders. Every third customer, by key, has none."""
        ordinals = self._random.integers(0, max(1, self._customers * 2 // 3), count)
        return ordinals // 2 * 3 + 1 + ordinals % 2

    def _lines(self, keys: Integers, numbers: Integers, order_days: Integers) -> dict[str, pa.Array]:
        count = len(keys)
        shipped = order_days + self._random.integers(1, 122, count)
        received = shipped + self._random.integers(1, 31, count)
        returned = np.where(received <= CURRENT_DAY, self._random.integers(0, 2, count), 2)
        return {
            "l_orderkey": keys,
            "l_linenumber": pa.array(numbers).cast(pa.int32()),
            "l_returnflag": text_column(("R", "A", "N"), returned),
            "l_linestatus": text_column(("F", "O"), (shipped > CURRENT_DAY).astype(np.int64)),
            "l_shipdate": date_column(shipped),
            "l_commitdate": date_column(order_days + self._random.integers(30, 91, count)),
            "l_receiptdate": date_column(received),
            "l_comment": self._random_texts(self._line_comments, count),
        }

    def _line_items(
        self, quantities: Integers, prices: Integers, hot_parts: Integers
    ) -> tuple[dict[str, pa.Array], Integers]:
        """Return the part, supplier and price columns of lineitems, and their cents of the order's total."""
        count = len(quantities)
        is_hot = self._random.random(count) < HOT_SHARE
        parts, suppliers = self._pairs[:, self._choose_offers(is_hot, hot_parts)]
        extended = quantities * prices[parts - 1]
        discounts, taxes = self._random.integers(0, 11, count), self._random.integers(0, 9, count)
        columns = {
            "l_partkey": parts,
            "l_suppkey": suppliers,
            "l_quantity": money_column(quantities * 100),
            "l_extendedprice": money_column(extended),
            "l_discount": money_column(discounts),
            "l_tax": money_column(taxes),
            "l_shipinstruct": text_column(
                INSTRUCTIONS, np.where(is_hot, 0, self._random.integers(0, 4, count))
            ),
            "l_shipmode": text_column(MODES, np.where(is_hot, 0, self._random.integers(0, 7, count))),
        }
        return columns, extended * (100 - discounts) // 100 * (100 + taxes) // 100

    def _choose_offers(
        self, is_hot: "np.ndarray[tuple[int], np.dtype[np.bool_]]", hot_parts: Integers
    ) -> Integers:
        """Return a position in ``self._pairs`` per lineitem, of a hot part where ``is_hot``."""
        count = len(is_hot)
        anywhere = self._random.integers(0, self._pairs.shape[1], count)
        if len(hot_parts) == 0:
            return anywhere
        first = np.searchsorted(self._pairs[0], self._random.choice(hot_parts, count))
        return np.where(is_hot, first + self._random.integers(0, 4, count), anywhere)

    def _random_texts(self, vocabulary: "tuple[str, ...] | list[str]", count: int) -> pa.Array:
        return text_column(vocabulary, self._random.integers(0, len(vocabulary), count))

    def _order_remarks(self, count: int) -> pa.Array:
        plain = len(self._order_comments) - len(SPECIAL)
        special = plain + self._random.integers(0, len(SPECIAL), count)
        ordinary = self._random.integers(0, plain, count)
        is_special = self._random.random(count) < SPECIAL_SHARE
        return text_column(self._order_comments, np.where(is_special, special, ordinary))


def _line_numbers(counts: Integers) -> Integers:
    """Return 1..count for each count, concatenated."""
    return np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)


def _order_status(shipped: Integers, starts: Integers, counts: Integers) -> pa.Array:
    """Return F if all lineitems are shipped, O if none is, P otherwise."""
    if len(starts) == 0:
        return pa.array([], pa.string())
    is_open = np.add.reduceat((shipped > CURRENT_DAY).astype(np.int64), starts)
    return text_column(("F", "O", "P"), np.where(is_open == 0, 0, np.where(is_open == counts, 1, 2)))


def _first_strings(folder: Path, table: str, column: str) -> list[str]:
    batches = pq.ParquetFile(table_path(folder, table)).iter_batches(MAX_COMMENTS, columns=[column])
    strings: list[str] = next(batches).column(0).to_pylist()
    return strings


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
MAX_CANDIDATES: Final = 50_000
"""Number of rows of a table's file from which updated rows are chosen."""
MAX_HOT_PARTS: Final = 256
"""Maximum number of recent hot parts that new lineitems choose from."""

Values = npt.NDArray[Any]


class UpdatableRows:
    """The rows of a table that can be updated, with their current values."""

    def __init__(self, folder: Path, table: str) -> None:
        self._key = list(PRIMARY_KEYS[table])
        file = pq.ParquetFile(table_path(folder, table))
        first = pa.Table.from_batches([next(file.iter_batches(MAX_CANDIDATES))])
        self.rows = first.cast(file_schema(folder, table)).combine_chunks()

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def values(self, column: str, positions: Integers) -> Values:
        """Return the current values of a column at ``positions``."""
        result: Values = self.rows[column].take(pa.array(positions)).to_numpy(zero_copy_only=False)
        return result

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


class UpdateGenerator:
    """The rows of the six tables other than orders and lineitem, and a generator of their updates."""

    def __init__(self, folder: Path, random: np.random.Generator) -> None:
        self._random = random
        self._tables = {
            table: UpdatableRows(folder, table)
            for table in ("region", "nation", "supplier", "customer", "part", "partsupp")
        }
        part = self._tables["part"]
        self._part_names = pc.unique(part.rows["p_name"]).slice(0, 4096).to_numpy(zero_copy_only=False)
        self._vocabulary = {
            column: part.rows[column].unique().sort().to_numpy(zero_copy_only=False)
            for column in ("p_brand", "p_type", "p_size", "p_container")
        } | {"p_name": self._part_names}
        retail = pq.read_table(table_path(folder, "part"), columns=["p_partkey", "p_retailprice"])
        self.prices: Integers = column_cents(retail.sort_by("p_partkey")["p_retailprice"])
        self.hot_parts: Integers = np.empty(0, dtype=np.int64)

    def refresh(self, number: int, orders: int) -> dict[str, TableChange]:
        """Return the updates of refresh ``number``, in proportion to ``orders`` changed orders."""
        changes = {
            "part": self._parts(max(4, orders // 10)),
            "partsupp": self._stock(max(8, orders // 5)),
            "supplier": self._suppliers(max(2, orders // 100)),
            "customer": self._customers(max(4, orders // 10)),
        }
        if number % 3 == 0:
            changes["nation"] = self._nations(number)
        if number % 5 == 0:
            changes["region"] = self._swap_values("region", "r_name", self._sample("region", 2))
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
        self.hot_parts = np.concatenate([self.hot_parts, keys[kind >= 0]])[-MAX_HOT_PARTS:]
        price = money_column(self.prices[keys - 1])
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
        cost = money_column(self._random.integers(100, 100_001, count))
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
        """Alternately move a nation to another region, or swap the names of two nations."""
        hot = self._random.choice(HOT_NATIONS)
        other = self._random.choice(np.setdiff1d(np.arange(25), HOT_NATIONS))
        if number % 2 == 0:
            return self._swap_values("nation", "n_name", np.sort(np.array([hot, other])))
        nation = self._tables["nation"]
        positions = np.array([hot])
        shift = self._random.integers(1, 5, 1)
        return nation.update(
            positions, {"n_regionkey": (nation.values("n_regionkey", positions) + shift) % 5}
        )

    def _swap_values(self, table: str, column: str, positions: Integers) -> TableChange:
        rows = self._tables[table]
        return rows.update(positions, {column: rows.values(column, positions)[::-1]})

    def _nation_keys(self, count: int) -> Integers:
        hot = self._random.choice(HOT_NATIONS, count)
        return np.where(self._random.random(count) < 0.5, hot, self._random.integers(0, 25, count))

    def _balances(self, count: int) -> pa.Array:
        return money_column(self._random.integers(-99_999, 1_000_000, count))

    def _phones(self, nations: Integers) -> Values:
        numbers = self._random.integers((100, 100, 1000), (1000, 1000, 10_000), (len(nations), 3))
        phones = [f"{10 + n}-{a}-{b}-{c}" for n, (a, b, c) in zip(nations, numbers, strict=True)]
        return np.array(phones, dtype=object)


class RefreshStream:
    """Refreshes of ``orders`` orders each, by default 0.1% of those in ``folder``.

    Each batch applies to the data after the previous batches. Equal folders and seeds give equal
    streams.
    """

    def __init__(self, folder: Path, *, seed: int, orders: int | None = None) -> None:
        random = np.random.default_rng(seed)
        self._orders = OrderGenerator(folder, random)
        self._updates = UpdateGenerator(folder, random)
        self.orders = max(1, len(self._orders) // 1000) if orders is None else orders
        self._number = 0

    def next_batch(self) -> Batch:
        """Return the next refresh."""
        self._number += 1
        updates = self._updates.refresh(self._number, self.orders)
        orders = self._orders.refresh(self.orders, self._updates.prices, self._updates.hot_parts)
        return Batch(self._number, {**orders, **updates})
