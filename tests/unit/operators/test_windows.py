"""Window functions over rows that are laid out, against their definition: random rows, every frame."""

import math
import random
from itertools import product

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import compute_aggregate, lookup_aggregate, window_function, window_functions
from kpg.runtime.operators.windows.window_evaluation import comoments, double_frame_sums, evaluate_calls
from kpg.runtime.operators.windows.window_frames import build_layout, floats_to_words, words_to_floats
from kpg.runtime.plan import Bound, Edge, Exclude, Frame, Ranged, Unit, WindowCall
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import BIGINT, DOUBLE, INTEGER, NULL, TEXT, Type, float_to_word
from tests.model import windows as model

PARTITION, ORDER, VALUE, SMALL, REAL, NAME = range(6)
"""The columns of the rows: the number of the partition, what it is ordered by, and operands."""
OFFSETS = (Edge.PRECEDING, Edge.FOLLOWING)
NAMES = ["", "a", "aa", "b", "é"]


def bounds() -> list[Bound]:
    return [Bound(edge, offset) for edge in Edge for offset in ((0, 1, 3) if edge in OFFSETS else (0,))]


def frames(unit: Unit, descending: bool) -> list[Frame]:
    found = []
    for start, end in product(bounds(), bounds()):
        order = list(Edge)
        if order.index(start.edge) > order.index(end.edge):
            continue
        if start.edge is Edge.UNBOUNDED_FOLLOWING or end.edge is Edge.UNBOUNDED_PRECEDING:
            continue
        ranged = Ranged(ORDER, descending, False) if unit is Unit.RANGE else None
        found += [Frame(unit, start, end, exclude, ranged) for exclude in Exclude]
    return found


def partitions(generator: random.Random, descending: bool) -> list[list[model.Row]]:
    result = []
    for number in range(generator.randint(1, 4)):
        rows: list[model.Row] = [
            (
                number,
                generator.choice([None, 0, 1, 2, 4, 7]),
                generator.choice([None, -5, 0, 3, 2**40]),
                generator.choice([None, 1, 2, 5]),
                generator.choice([None, 0.5, -0.0, 1e300, -2.25]),
                generator.choice([None, *NAMES]),
            )
            for _ in range(generator.randint(1, 9))
        ]
        known = sorted((row for row in rows if row[ORDER] is not None), key=lambda row: row[ORDER])
        null = [row for row in rows if row[ORDER] is None]
        known = known[::-1] if descending else known
        result.append([*null, *known] if generator.random() < 0.5 else [*known, *null])
    return result


def word(value: object, dictionary: Dictionary) -> int:
    if value is None:
        return NULL
    if isinstance(value, str):
        return dictionary.code(value)
    return float_to_word(value) if isinstance(value, float) else int(value)  # type: ignore[call-overload]


def check(calls: list[WindowCall], parts: list[list[model.Row]]) -> None:
    dictionary = Dictionary()
    rows = [row for part in parts for row in part]
    data = np.array([[word(value, dictionary) for value in row] for row in rows], np.int64).T.copy()
    layout = build_layout(data, data[PARTITION], (ORDER,))
    found = evaluate_calls(layout, calls, dictionary)
    for call, column in zip(calls, found.tolist(), strict=True):
        expected = [answer for part in parts for answer in model.answers(call, part, (ORDER,))]
        assert column == [word(value, dictionary) for value in expected], call


def call(name: str, frame: Frame, *args: Scalar, type_: Type = BIGINT) -> WindowCall:
    return WindowCall(name, args, type_, frame)


VALUES = Column(VALUE, BIGINT)
SMALLS = Column(SMALL, INTEGER)
TEXTS = Column(NAME, TEXT)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("unit", list(Unit))
def test_aggregates_are_over_the_rows_of_the_frame(unit: Unit, descending: bool) -> None:
    generator = random.Random(f"{unit}{descending}")
    for frame in frames(unit, descending):
        calls = [
            call("count", frame),
            call("count", frame, VALUES),
            call("sum", frame, VALUES),
            call("min", frame, VALUES),
            call("max", frame, Column(REAL, DOUBLE), type_=DOUBLE),
            call("min", frame, TEXTS, type_=TEXT),
            call("max", frame, TEXTS, type_=TEXT),
            call("first_value", frame, VALUES),
            call("last_value", frame, TEXTS, type_=TEXT),
            call("nth_value", frame, VALUES, SMALLS),
            call("nth_value", frame, VALUES, Literal(2, INTEGER)),
        ]
        check(calls, partitions(generator, descending))


@pytest.mark.parametrize("unit", list(Unit))
def test_aggregates_without_merge_run_along_the_rows(unit: Unit) -> None:
    generator = random.Random(7)
    for frame in frames(unit, False):
        check([call("median", frame, Column(REAL, DOUBLE), type_=DOUBLE)], partitions(generator, False))


def test_ranking_and_offsets() -> None:
    generator = random.Random(3)
    calls = [
        *(call(name, Frame()) for name in ("row_number", "rank", "dense_rank")),
        *(call(name, Frame(), type_=DOUBLE) for name in ("percent_rank", "cume_dist")),
        *(call("ntile", Frame(), Literal(n, INTEGER)) for n in (None, 1, 2, 3, 4, 100)),
        *(call(name, Frame(), VALUES) for name in ("lag", "lead")),
        *(
            call(name, Frame(), VALUES, Literal(n, INTEGER))
            for name in ("lag", "lead")
            for n in (None, -2, 0, 2)
        ),
        *(call(name, Frame(), VALUES, SMALLS, Column(ORDER, BIGINT)) for name in ("lag", "lead")),
        *(call(name, Frame(), TEXTS, Literal(2**40, BIGINT), Literal("é", TEXT)) for name in ("lag", "lead")),
    ]
    for _ in range(50):
        check(calls, partitions(generator, False))


@pytest.mark.parametrize("seed", range(30))
def test_sums_of_doubles_are_exact(seed: int) -> None:
    generator = random.Random(seed)
    spread = generator.choice([0, 30, 200, 500])
    special = [None, 0.0, *((math.inf, -math.inf, math.nan) if seed % 5 == 0 else ())]
    values = [
        generator.choice(special) if generator.random() < 0.2 else _double(generator, spread)
        for _ in range(40)
    ]
    found = np.array([NULL if value is None else float_to_word(value) for value in values], np.int64)
    starts = np.array([generator.randint(0, 40) for _ in range(60)], np.int64)
    ends = np.minimum(starts + generator.choice([0, 1, 5, 40]), 40)
    sums = double_frame_sums(found, ((starts, ends),))
    if sums is None:
        assert spread == 500
        return
    algorithm = lookup_aggregate("sum").algorithm((DOUBLE,))
    for start, end, word in zip(starts.tolist(), ends.tolist(), sums.tolist(), strict=True):
        expected = compute_aggregate(algorithm, (((value,), 1) for value in values[start:end]))
        assert word == (NULL if expected is None else float_to_word(expected))


@pytest.mark.parametrize("seed", range(12))
def test_comoments_are_those_of_the_algorithm(seed: int) -> None:
    generator = random.Random(seed)
    type_: Type = DOUBLE if seed % 2 else BIGINT
    special = [None, *((math.inf, math.nan) if seed % 6 == 1 else ())]

    def operand() -> float | int | None:
        if generator.random() < 0.2:
            return generator.choice(special)
        return _double(generator, 40) if seed % 2 else generator.randint(-(10**12), 10**12)

    pairs = [(operand(), operand()) for _ in range(30)]
    first, second = (np.array([word(pair[i], Dictionary()) for pair in pairs], np.int64) for i in (0, 1))
    starts = np.array([generator.randint(0, 30) for _ in range(40)], np.int64)
    ends = np.minimum(starts + generator.choice([0, 1, 5, 30]), 30)
    algorithm = lookup_aggregate("$comoment").algorithm((type_, type_))
    found = comoments(first, second, type_, ((starts, ends),))
    for start, end, given in zip(starts.tolist(), ends.tolist(), found.tolist(), strict=True):
        expected = compute_aggregate(algorithm, ((pair, 1) for pair in pairs[start:end]))
        assert given == word(expected, Dictionary())


def _double(generator: random.Random, spread: int) -> float:
    return math.ldexp(generator.choice([-1, 1]) * generator.random(), generator.randint(-spread, spread))


def test_sums_of_tiny_and_of_huge_doubles() -> None:
    everything = ((np.array([0]), np.array([3])),)
    tiny = np.array([float_to_word(value) for value in (5e-324, 5e-324, -1e-310)], np.int64)
    found = double_frame_sums(tiny, everything)
    assert found is not None and found.tolist() == [float_to_word(5e-324 + 5e-324 - 1e-310)]
    huge = np.array([float_to_word(1.7e308)] * 3, np.int64)
    with pytest.raises(OverflowError):
        double_frame_sums(huge, everything)


def test_words_of_doubles_are_ordered_as_they_are() -> None:
    values = [float("-inf"), -1e300, -1.0, 0.0, 5e-324, 2.5, float("inf")]
    found = floats_to_words(np.array(values))
    assert found.tolist() == [float_to_word(value) for value in values]
    assert words_to_floats(found).tolist() == values
    assert floats_to_words(np.array([float("nan"), -0.0])).tolist() == [float_to_word(float("nan")), 0]


def test_every_function_is_an_aggregate_or_has_an_entry() -> None:
    names = [function.name for function in window_functions()]
    assert names == sorted(names)
    assert window_function("row_number") is not None
    assert window_function("sum") is None
    assert lookup_aggregate("sum").name == "sum"
    assert {function.name for function in window_functions() if function.uses_frame} == {
        "first_value",
        "last_value",
        "nth_value",
    }


def test_a_rule_says_what_a_function_takes() -> None:
    lag, ntile, nth = (window_function(name) for name in ("lag", "ntile", "nth_value"))
    assert lag is not None and ntile is not None and nth is not None
    signature = lag.rule((INTEGER, INTEGER, BIGINT))
    assert signature is not None and signature.result == BIGINT
    assert lag.rule((INTEGER, TEXT)) is None
    assert lag.rule((INTEGER, INTEGER, TEXT)) is None
    assert ntile.rule((TEXT,)) is None
    assert nth.rule((TEXT,)) is None
