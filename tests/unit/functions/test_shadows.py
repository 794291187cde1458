"""What tells whether an expression fails, against the expression itself."""

import random

import numpy as np
import pytest

from kpg.runtime.errors import DataError
from kpg.runtime.functions.registry import guard_of, is_expensive
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, NULL, NUMERIC, decimal
from tests.unit.functions.expressions import Engine

MONEY = decimal(18, 2)
A, B, N, W = Column(0, MONEY), Column(1, MONEY), Column(2, BIGINT), Column(3, NUMERIC)
HALF = Literal("p19999950", NUMERIC)  # 0.5, as NUMERICs are spelled


def numeric(x: Scalar) -> Call:
    return Call("cast", (x,), NUMERIC)


def over(name: str, *args: Scalar) -> Call:
    return Call(name, args, NUMERIC)


MEAN = over("$mean", A, N)
IS_LARGE = Call("gt", (N, Literal(1, BIGINT)), BOOLEAN)
GUARDED: dict[str, Scalar] = {
    "quotient": over("div", A, B),
    "of a mean": over("div", MEAN, B),
    "by a mean": over("div", A, MEAN),
    "by a product": over("div", HALF, over("mul", numeric(A), over("mul", HALF, numeric(B)))),
    "by minus": over("div", MEAN, over("neg", numeric(B))),
    "chosen": If(IS_LARGE, over("div", A, B), MEAN, NUMERIC),
    "not chosen": If(IS_LARGE, MEAN, over("div", A, B), NUMERIC),
    "by a choice": over("div", A, If(IS_LARGE, MEAN, numeric(B), NUMERIC)),
    "by a wide sum": over("div", A, over("$wide_sum", N, Column(1, BIGINT))),
    "by a wide mean": over("div", A, over("$wide_mean", Column(1, BIGINT), Column(0, BIGINT), N)),
    "sum that overflows": over("div", Call("mul", (A, Literal(10**16, BIGINT)), decimal(18, 2)), N),
}
SURE: dict[str, Scalar] = {
    "mean": MEAN,
    "rounded": over("round", MEAN, Literal(1, INTEGER)),
    "sum": over("add", MEAN, over("sub", HALF, MEAN)),
    "by a constant": over("div", MEAN, HALF),
    "comparison": Call("gt", (MEAN, HALF), BOOLEAN),
    "choice": If(IS_LARGE, MEAN, HALF, NUMERIC),
}
DOUBTFUL: dict[str, Scalar] = {
    "of any NUMERIC": over("mul", W, W),
    "by a difference": over("div", A, over("sub", MEAN, HALF)),
    "root": over("sqrt", MEAN),
    "to few digits": Call("cast", (MEAN,), decimal(3, 1)),
    "chosen by a mean": If(Call("gt", (MEAN, HALF), BOOLEAN), over("div", A, B), MEAN, NUMERIC),
}


def fails(mfp: Mfp, row: list[int], engine: Engine) -> bool:
    try:
        CompiledMfp(mfp, engine).run(np.array(row, np.int64).reshape(-1, 1))
    except DataError:
        return True
    return False


@pytest.mark.parametrize("name", sorted(GUARDED))
def test_a_guard_fails_where_the_expression_does(name: str) -> None:
    engine, rng, seen = Engine(), random.Random(name), set()
    mfp = Mfp((), (A, GUARDED[name]))
    found = guard_of(mfp.predicates, mfp.outputs)
    assert found is not None and not any(map(is_expensive, found[1]))
    guard = Mfp(*found)
    for _ in range(60):
        row = [rng.choice((NULL, 0, 0, 1, -7, 300, 3_037_000_500, -3_037_000_500)) for _ in range(3)]
        seen.add(failed := fails(mfp, row, engine))
        assert fails(guard, row, engine) == failed, row
    assert seen == {True, False}


@pytest.mark.parametrize("name", sorted(SURE))
def test_what_never_fails_needs_no_look(name: str) -> None:
    engine, mfp = Engine(), Mfp((IS_LARGE,), (A, SURE[name]))
    assert is_expensive(SURE[name])
    assert guard_of(mfp.predicates, mfp.outputs) == ((), ())
    for row in ([NULL, 0, 5], [10**18, 0, 2], [-7, 1, 3], [0, 0, 2]):
        assert not fails(mfp, row, engine)


@pytest.mark.parametrize("name", sorted(DOUBTFUL))
def test_the_rest_has_no_guard(name: str) -> None:
    assert guard_of((), (DOUBTFUL[name],)) is None


def test_rows_that_are_left_out_do_not_fail() -> None:
    guard = guard_of((IS_LARGE,), (over("div", A, B),))
    assert guard is not None and guard[0] == (IS_LARGE,)
    assert guard_of((Call("gt", (MEAN, HALF), BOOLEAN),), (over("div", A, B),)) is None


def test_what_python_computes_is_dear() -> None:
    assert is_expensive(Call("add", (N, Call("cast", (numeric(A),), BIGINT)), BIGINT))
    assert not is_expensive(Call("add", (N, Literal(1, BIGINT)), BIGINT))
    assert not is_expensive(numeric(Literal(1, BIGINT)))
