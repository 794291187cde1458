"""TABLESAMPLE: rows of a table that chance chooses, each for itself.

A row is in a sample by its number in the table and the seed, so that a view with a sample follows the table:
a row stays in or out for as long as it is there. Without REPEATABLE a query that is asked once has another
seed each time, a view always the same one. Both methods choose row by row: there are no pages.
"""

import random
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog import ViewEntry
from kpg.compiler.sql.bind.calls import brought, call, coerce
from kpg.compiler.sql.bind.chance import SALT_BITS
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import relation_name
from kpg.compiler.sql.tree import Filter, Node, Scan, Window
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, ROWID

METHODS: Final = ("bernoulli", "system")
TABLES_ONLY: Final = "TABLESAMPLE can only be applied to tables and materialized views"
ALL: Final = 100
FINENESS: Final = 1000
"""Seeds differ that differ by a thousandth."""


def bind_sampled(
    binding: Binding, scope: Scope, node: exp.Table, bind: Callable[[Binding, Scope, exp.Table], Node]
) -> Node:
    """The rows of a table of which a share is taken, in percent; ``bind`` makes all rows of it."""
    sample = node.args["sample"]
    method = sample.args.get("method")
    if method is not None and method.name.lower() not in METHODS:
        binding.wrong(f"tablesample method {method.name.lower()} does not exist", sample)
    whole = node.copy()
    whole.set("sample", None)
    entry = binding.catalog.find(relation_name(node))
    named = node.args.get("db") is None and scope.find_common(node.name) is not None
    if named or (isinstance(entry, ViewEntry) and not entry.materialized):
        binding.wrong(TABLES_ONLY, node)
    rows = bind(binding, scope, whole)
    given = sample.args.get("percent") or sample.args.get("size")
    fixed = _constant(given)
    if fixed is not None:
        if not 0 <= fixed <= ALL:
            binding.wrong("sample percentage must be between 0 and 100", sample)
        if fixed in (0, ALL):
            return rows if fixed else Filter(rows, (Literal(0, BOOLEAN),))
    share = _number(binding, scope, given, "TABLESAMPLE parameter cannot be null")
    rows, row = _numbered(binding, rows, sample)
    drawn: Scalar = Call("$random", (row, _seed(binding, scope, sample)), DOUBLE)
    drawn = call(binding, "mul", [drawn, coerce(Literal(ALL, BIGINT), DOUBLE)], sample)
    return Filter(rows, (call(binding, "lt", [drawn, share], sample),))


def _constant(node: exp.Expr) -> float | None:
    """What a number, or one with a minus, is."""
    if isinstance(node, exp.Neg):
        below = _constant(node.this)
        return None if below is None else -below
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _number(binding: Binding, scope: Scope, node: exp.Expr, no_null: str) -> Scalar:
    value = binding.expression(scope.without_aggregates("TABLESAMPLE"), node)
    if isinstance(value, Literal) and value.value is None:
        binding.wrong(no_null, node)
    return brought(binding, value, DOUBLE, node)


def _numbered(binding: Binding, rows: Node, sample: exp.Expr) -> tuple[Node, Column]:
    """The rows with a number that no two of them share, and that stays theirs in a view."""
    if isinstance(rows, Scan):
        types = rel_types(rows.rel)
        if types[-1] == ROWID:
            return rows, Column(rows.ids[-1], BIGINT)
    if binding.kept:
        binding.refuse(
            "TABLESAMPLE of a share of anything but a plain table in a view", sample, "write a WHERE"
        )
    number = Column(binding.fresh(), BIGINT)
    calls = (WindowCall("row_number", (), BIGINT),)
    return Window(rows, (), (), (), (number.index,), calls), number


def _seed(binding: Binding, scope: Scope, sample: exp.Expr) -> Scalar:
    given = sample.args.get("seed")
    if given is None:
        return Literal(0 if binding.kept else random.getrandbits(SALT_BITS), BIGINT)
    seed = _number(binding, scope, given, "TABLESAMPLE REPEATABLE parameter cannot be null")
    thousandths = call(binding, "mul", [seed, coerce(Literal(FINENESS, BIGINT), DOUBLE)], sample)
    return Call("cast", (thousandths,), BIGINT)
