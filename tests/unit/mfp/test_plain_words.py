"""Chunks of plain words, of which bounds are known, give what chunks with NULLs and large words give."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.kernels.vm import CHUNK
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Fetch, Literal, Scalar
from kpg.runtime.tables.table import Table
from kpg.runtime.types import BIGINT, NULL, ROWID, ColumnDef, Schema
from tests.unit.functions.expressions import Engine, call

A, B, C = (Column(i, BIGINT) for i in range(3))
Row = tuple[int | None, ...]


def big(value: int) -> Literal:
    return Literal(value, BIGINT)


def chunks(seed: int) -> list[Row]:
    """Five chunks and a bit: small words, with NULLs, wide words, only NULLs, one constant."""
    rng = random.Random(seed)
    kinds: list[Callable[[], int | None]] = [
        lambda: rng.randint(-100, 100),
        lambda: rng.choice([None, rng.randint(-3, 3)]),
        lambda: rng.randint(-(2**31), 2**31),
        lambda: None,
        lambda: 7,
        lambda: rng.randint(-5, 5),
    ]
    rows: list[Row] = []
    for kind in kinds:
        for _ in range(CHUNK if kind is not kinds[-1] else 37):
            rows.append((kind(), rng.choice([kind(), kind(), 3]), kind()))
    return rows


def words(rows: list[Row]) -> np.ndarray:
    return np.array([[NULL if word is None else word for word in row] for row in rows], np.int64).T.copy()


def run(predicates: tuple[Scalar, ...], outputs: tuple[Scalar, ...], rows: list[Row]) -> list[Row]:
    found, kept = CompiledMfp(Mfp(predicates, outputs), Engine()).run(words(rows))
    assert kept is None or len(kept) == found.shape[1]
    return [tuple(None if word == NULL else word for word in row) for row in found.T.tolist()]


def lift(function: Callable[[int, int], int]) -> Callable[[int | None, int | None], int | None]:
    return lambda p, q: None if p is None or q is None else function(p, q)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda p, q: p + q,
    "sub": lambda p, q: p - q,
    "mul": lambda p, q: p * q,
    "eq": lambda p, q: int(p == q),
    "ne": lambda p, q: int(p != q),
    "lt": lambda p, q: int(p < q),
    "le": lambda p, q: int(p <= q),
    "gt": lambda p, q: int(p > q),
    "ge": lambda p, q: int(p >= q),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    rows, operation = chunks(1), lift(OPERATIONS[name])
    assert run((), (call(name, A, B),), rows) == [(operation(a, b),) for a, b, _ in rows]


def test_results_are_operands() -> None:
    rows = chunks(2)
    add, mul = lift(OPERATIONS["add"]), lift(OPERATIONS["mul"])
    value = call("sub", call("mul", call("add", A, B), C), call("mul", A, big(3)))
    sub = lift(OPERATIONS["sub"])
    rows = [row for row in rows if all(word is None or abs(word) < 2**30 for word in row)]
    expected = [(sub(mul(add(a, b), c), mul(a, 3)),) for a, b, c in rows]
    assert run((), (value,), rows) == expected


def test_overflow_is_found_behind_plain_chunks() -> None:
    rows: list[Row] = [(1, 2, 3)] * (2 * CHUNK)
    for bad in ((2**62, 2**62), (2**63 - 1, 1), (-(2**63) + 2, -1)):
        with pytest.raises(DataError, match="BIGINT out of range"):
            run((), (call("add", A, B),), [*rows, (*bad, 0), *rows])
    with pytest.raises(DataError, match="BIGINT out of range"):
        run((), (call("mul", A, B),), [*rows, (2**32, 2**32, 0)])
    assert run((), (call("mul", A, B),), [(2**31, 2**31, 0)]) == [(2**62,)]
    assert run((), (call("sub", A, B),), [(-(2**63) + 2, 0, 0)]) == [(-(2**63) + 2,)]


def test_connectives() -> None:
    rows = chunks(3)
    low, same = call("lt", A, B), call("eq", A, C)
    less, equal = lift(OPERATIONS["lt"]), lift(OPERATIONS["eq"])

    def conjunction(p: int | None, q: int | None) -> int | None:
        return 0 if 0 in (p, q) else None if None in (p, q) else 1

    def disjunction(p: int | None, q: int | None) -> int | None:
        return 1 if 1 in (p, q) else None if None in (p, q) else 0

    for name, connective in (("and", conjunction), ("or", disjunction)):
        expected = [(connective(less(a, b), equal(a, c)),) for a, b, c in rows]
        assert run((), (call(name, low, same),), rows) == expected


def test_a_range_is_one_instruction_and_rejects_null() -> None:
    rows = chunks(4)
    for low, high in ((-2, 3), (5, 4), (-(2**63) + 2, 2**63 - 1), (7, 7)):
        bounds = (call("ge", A, big(low)), call("le", A, big(high)))
        expected = [(a, b) for a, b, _ in rows if a is not None and low <= a <= high]
        assert run(bounds, (A, B), rows) == expected
    half = (call("gt", A, big(-2)), call("lt", A, big(3)), call("eq", A, big(1)))
    assert run(half, (B,), rows) == [(b,) for a, b, _ in rows if a == 1]


def test_an_error_in_a_range_counts() -> None:
    value = call("div", big(6), A)
    bounds = (call("ge", value, big(1)), call("le", value, big(3)))
    assert run(bounds, (A,), [(2, 0, 0), (1, 0, 0), (None, 0, 0)]) == [(2,)]
    with pytest.raises(DataError, match="division by zero"):
        run(bounds, (A,), [(2, 0, 0)] * CHUNK + [(0, 0, 0)])


@pytest.mark.parametrize("size", [1, 2, 8, 9, 40])
def test_membership(size: int) -> None:
    rows, members = chunks(5), random.Random(size).sample(range(-50, 50), size)
    found = run((), (call("in", A, *map(big, members)),), rows)
    assert found == [(None if a is None else int(a in members),) for a, _, _ in rows]


def test_filters_in_a_row_keep_columns_together() -> None:
    rows = chunks(6)
    predicates = (call("ge", A, big(-50)), call("lt", call("add", B, C), big(9)), call("ne", A, C))
    expected = [
        (c, a, a + b)
        for a, b, c in rows
        if a is not None and b is not None and c is not None and a >= -50 and b + c < 9 and a != c
    ]
    assert run(predicates, (C, A, call("add", A, B)), rows) == expected


@pytest.mark.parametrize("bits", [0, 3, 9, 11, 30])
def test_rows_are_fetched_from_wherever_they_are(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << bits)
    rng = random.Random(bits)
    table = Table("t", Schema((ColumnDef("a", BIGINT), ColumnDef("b", BIGINT))), Dictionary())
    count = 5000
    table.insert(np.stack((np.arange(count) * 2, np.arange(count) % 7)))
    value = call("mul", Fetch("t", 0, A, BIGINT), Fetch("t", 1, A, BIGINT))
    compiled = CompiledMfp(
        Mfp((call("lt", Fetch("t", 1, A, BIGINT), big(5)),), (A, value)), Engine(tables={"t": table})
    )
    dead: set[int] = set()
    for share in (0.0, 0.6, 1.0):
        table.delete(
            np.array([r for r in range(1000, 4000) if r not in dead and rng.random() < share], np.int64)
        )
        dead = set(range(count)) - set(table.live().tolist())
        table.drain()
        for _ in range(count):
            table.commit()
        live = table.live().tolist()
        for rowids in (
            live,
            live[::-1],
            rng.sample(live, 1500),
            live[7:1100],
            [live[3]],
            [NULL, live[0], NULL],
        ):
            found, _ = compiled.run(np.array([rowids], np.int64))
            assert found.T.tolist() == [[r, 2 * r * (r % 7)] for r in rowids if r != NULL and r % 7 < 5]
    assert bits > 12 or table.reclaimed_rows > 2000


def test_a_row_that_is_gone_reads_as_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 8 << 4)
    table = Table("t", Schema((ColumnDef("a", BIGINT),)), Dictionary())
    table.insert(np.arange(40).reshape(1, -1))
    table.delete(np.array([*range(10), *range(16, 32)]))
    table.drain()
    table.commit()
    rowid = Column(0, ROWID)
    compiled = CompiledMfp(Mfp((), (Fetch("t", 0, rowid, BIGINT),)), Engine(tables={"t": table}))
    rowids = [5, 12, 20, 39]
    assert compiled.run(np.array([rowids]))[0].tolist() == [[NULL, 12, NULL, 39]]
