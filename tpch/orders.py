"""New orders with their lineitems, and old ones to delete: the specification's RF1 and RF2.

Columns follow the distributions of the specification's section 4.2.3, except that a small share of the
orders is large (query 18), complains of special requests (13) or asks for the parts and the shipping
that queries 17 and 19 select: those rows are so rare that a small refresh would hardly ever hold one.
"""

from datetime import date
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kpg.tpch.batch import TableChange
from kpg.tpch.columns import Integers, build, dates, file_schema, money, text
from kpg.tpch.generate import table_path

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
COMMENTS: Final = 4096
"""Comments of the generated data that new rows are given at random."""
LARGE_SHARE: Final = 0.02
"""Of new orders, those of a quantity that q18 looks for."""
SPECIAL_SHARE: Final = 0.1
"""Of new orders, those with a comment that q13 leaves out."""
HOT_SHARE: Final = 0.2
"""Of new lines, those of parts that selective queries look for."""


class Orders:
    """The keys of the orders that exist, and the means to make more."""

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

        ``prices`` are cents by part key - 1; ``hot_parts`` are keys of parts that are asked for often.
        """
        old_orders, old_lines = self._delete(min(count, len(self._keys)))
        new_orders, new_lines = self._insert(count, prices, hot_parts)
        return {"orders": TableChange(old_orders, new_orders), "lineitem": TableChange(old_lines, new_lines)}

    def _delete(self, count: int) -> tuple[pa.Table, pa.Table]:
        positions = self._random.choice(len(self._keys), size=count, replace=False)
        keys, counts = self._keys[positions], self._line_counts[positions]
        self._keys = np.delete(self._keys, positions)
        self._line_counts = np.delete(self._line_counts, positions)
        linenumbers = pa.array(_numbers_within(counts)).cast(pa.int32())
        return (
            pa.table({"o_orderkey": keys}),
            pa.table({"l_orderkey": np.repeat(keys, counts), "l_linenumber": linenumbers}),
        )

    def _insert(self, count: int, prices: Integers, hot_parts: Integers) -> tuple[pa.Table, pa.Table]:
        keys = self._fresh_keys(count)
        large = self._random.random(count) < LARGE_SHARE
        counts = np.where(large, 7, self._random.integers(1, 8, count))
        self._keys = np.concatenate([self._keys, keys])
        self._line_counts = np.concatenate([self._line_counts, counts])
        order_days = self._random.integers(FIRST_DAY, LAST_DAY + 1, count)
        quantities = self._random.integers(np.repeat(np.where(large, 42, 1), counts), 51)
        lines = self._lines(np.repeat(keys, counts), _numbers_within(counts), np.repeat(order_days, counts))
        parts, charges = self._goods(quantities, prices, hot_parts)
        starts = np.cumsum(counts) - counts
        orders = {
            "o_orderkey": keys,
            "o_custkey": self._customer_keys(count),
            "o_orderstatus": _order_status(lines["l_shipdate"].cast(pa.int32()).to_numpy(), starts, counts),
            "o_totalprice": money(np.add.reduceat(charges, starts)),
            "o_orderdate": dates(order_days),
            "o_orderpriority": self._words(PRIORITIES, count),
            "o_clerk": [f"Clerk#{n:09d}" for n in self._random.integers(1, self._clerks + 1, count)],
            "o_shippriority": np.zeros(count, dtype=np.int32),
            "o_comment": self._remarks(count),
        }
        return build(self._schemas["orders"], orders), build(self._schemas["lineitem"], lines | parts)

    def _fresh_keys(self, count: int) -> Integers:
        """Keys that no order has had: generated orders use the first 8 of every 32."""
        ordinals = np.arange(self._created, self._created + count)
        self._created += count
        return ordinals // 24 * 32 + 8 + ordinals % 24

    def _customer_keys(self, count: int) -> Integers:
        """Customers that may order: every third, by key, never does."""
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
            "l_returnflag": text(("R", "A", "N"), returned),
            "l_linestatus": text(("F", "O"), (shipped > CURRENT_DAY).astype(np.int64)),
            "l_shipdate": dates(shipped),
            "l_commitdate": dates(order_days + self._random.integers(30, 91, count)),
            "l_receiptdate": dates(received),
            "l_comment": self._words(self._line_comments, count),
        }

    def _goods(
        self, quantities: Integers, prices: Integers, hot_parts: Integers
    ) -> tuple[dict[str, pa.Array], Integers]:
        """What each line is of and costs, and the cents that it adds to its order's total."""
        count = len(quantities)
        hot = self._random.random(count) < HOT_SHARE
        parts, suppliers = self._pairs[:, self._offers(hot, hot_parts)]
        extended = quantities * prices[parts - 1]
        discounts, taxes = self._random.integers(0, 11, count), self._random.integers(0, 9, count)
        columns = {
            "l_partkey": parts,
            "l_suppkey": suppliers,
            "l_quantity": money(quantities * 100),
            "l_extendedprice": money(extended),
            "l_discount": money(discounts),
            "l_tax": money(taxes),
            "l_shipinstruct": text(INSTRUCTIONS, np.where(hot, 0, self._random.integers(0, 4, count))),
            "l_shipmode": text(MODES, np.where(hot, 0, self._random.integers(0, 7, count))),
        }
        return columns, extended * (100 - discounts) // 100 * (100 + taxes) // 100

    def _offers(self, hot: "np.ndarray[tuple[int], np.dtype[np.bool_]]", hot_parts: Integers) -> Integers:
        """A position in ``self._pairs`` for each line, of one of the hot parts where ``hot``."""
        count = len(hot)
        anywhere = self._random.integers(0, self._pairs.shape[1], count)
        if len(hot_parts) == 0:
            return anywhere
        first = np.searchsorted(self._pairs[0], self._random.choice(hot_parts, count))
        return np.where(hot, first + self._random.integers(0, 4, count), anywhere)

    def _words(self, vocabulary: "tuple[str, ...] | list[str]", count: int) -> pa.Array:
        return text(vocabulary, self._random.integers(0, len(vocabulary), count))

    def _remarks(self, count: int) -> pa.Array:
        plain = len(self._order_comments) - len(SPECIAL)
        special = plain + self._random.integers(0, len(SPECIAL), count)
        ordinary = self._random.integers(0, plain, count)
        is_special = self._random.random(count) < SPECIAL_SHARE
        return text(self._order_comments, np.where(is_special, special, ordinary))


def _numbers_within(counts: Integers) -> Integers:
    """1..count for each count, one after the other."""
    return np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)


def _order_status(shipped: Integers, starts: Integers, counts: Integers) -> pa.Array:
    """F when all lines are shipped, O when none is, P otherwise."""
    if len(starts) == 0:
        return pa.array([], pa.string())
    is_open = np.add.reduceat((shipped > CURRENT_DAY).astype(np.int64), starts)
    return text(("F", "O", "P"), np.where(is_open == 0, 0, np.where(is_open == counts, 1, 2)))


def _first_strings(folder: Path, table: str, column: str) -> list[str]:
    batches = pq.ParquetFile(table_path(folder, table)).iter_batches(COMMENTS, columns=[column])
    strings: list[str] = next(batches).column(0).to_pylist()
    return strings
