"""The eight TPC-H tables and the 22 queries: their SQL text, which lives beside this module."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

PRIMARY_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "region": ("r_regionkey",),
        "nation": ("n_nationkey",),
        "supplier": ("s_suppkey",),
        "customer": ("c_custkey",),
        "part": ("p_partkey",),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "orders": ("o_orderkey",),
        "lineitem": ("l_orderkey", "l_linenumber"),
    }
)
TABLES: Final = tuple(PRIMARY_KEYS)
"""In an order in which every table comes after those that it refers to."""

QUERIES: Final = tuple(range(1, 23))


@cache
def create_statements() -> Mapping[str, str]:
    """The CREATE TABLE statement of each table, by name, without the final semicolon."""
    text = files("kpg.tpch").joinpath("schema.sql").read_text(encoding="utf-8")
    statements = re.finditer(r"^create table (\w+) .*?^\)", text, re.MULTILINE | re.DOTALL)
    return MappingProxyType({statement[1]: statement[0] for statement in statements})


@cache
def query_text(number: int) -> str:
    """The SQL text of a query with the specification's validation parameters, without a final semicolon."""
    text = files("kpg.tpch").joinpath("queries", f"q{number:02d}.sql").read_text(encoding="utf-8")
    return text.strip().removesuffix(";").rstrip()
