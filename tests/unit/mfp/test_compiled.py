"""Compiled map-filter-projects: selection, fetches, errors, text, and what is computed how often."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import vm
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.mfp.python_calls import Memo
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    ERROR,
    INTEGER,
    MIN_WORD,
    NULL,
    NUMERIC,
    ROWID,
    TEXT,
    decimal,
    float_to_word,
)
from tests.unit.functions.expressions import Engine, call

MONEY = decimal(15, 2)


@dataclass
class Rows:
    """A row store that counts nothing and holds columns."""

    columns: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    groups: RowGroups | None = None

    @property
    def directory(self) -> np.ndarray:
        if self.groups is None:
            self.groups = RowGroups.from_columns(self.columns)
        return self.groups.directory


def integer(value: int | None) -> Literal:
    return Literal(value, INTEGER)


def text(value: str) -> Literal:
    return Literal(value, TEXT)


def words(*rows: list[int]) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def run(
    predicates: list[Scalar], outputs: list[Scalar], data: np.ndarray, engine: Engine | None = None
) -> object:
    out, kept = CompiledMfp(Mfp(tuple(predicates), tuple(outputs)), engine or Engine()).run(data)
    return out.tolist(), None if kept is None else kept.tolist()


A, B = Column(0, INTEGER), Column(1, INTEGER)


def test_plain_columns_are_selected_without_running_code() -> None:
    data = words([1, 2], [3, 4])
    out, kept = CompiledMfp(Mfp((), (A, B)), Engine()).run(data)
    assert out is data and kept is None
    out, kept = CompiledMfp(Mfp((), (B, A, B)), Engine()).run(data)
    assert out.tolist() == [[3, 4], [1, 2], [3, 4]] and kept is None
    out, _ = CompiledMfp(Mfp((), ()), Engine()).run(data)
    assert out.shape == (0, 2)


def test_inputs_are_the_columns_read() -> None:
    compiled = CompiledMfp(Mfp((call("gt", Column(5, INTEGER), A),), (Column(2, INTEGER),)), Engine())
    assert compiled.inputs == (0, 2, 5)


def test_rows_pass_when_all_predicates_are_true() -> None:
    data = words([1, 2, NULL, 4], [9, 9, 9, 9])
    assert run([call("gt", A, integer(1))], [A, call("add", A, B)], data) == ([[2, 4], [11, 13]], [1, 3])
    assert run([call("gt", B, integer(0))], [B], data) == ([[9, 9, 9, 9]], None)
    assert run([call("lt", B, integer(0))], [B], data) == ([[]], [])
    assert run([call("lt", B, integer(0))], [B], data[:, :0]) == ([[]], None)


def test_chunks_are_joined() -> None:
    rows = 3 * vm.CHUNK + 17
    data = np.ascontiguousarray(np.arange(2 * rows, dtype=np.int64).reshape(2, rows))
    out, kept = CompiledMfp(Mfp((call("eq", call("mod", A, integer(3)), integer(1)),), (B,)), Engine()).run(
        data
    )
    passed = np.flatnonzero(data[0] % 3 == 1)
    assert kept is not None and (kept == passed).all() and (out[0] == data[1][passed]).all()


def test_values_survive_a_filter_that_follows_their_use() -> None:
    total = call("add", A, B)
    predicates = [
        call("gt", total, integer(4)),
        call("gt", A, integer(2)),
        call("lt", call("mul", B, B), total),
    ]
    data = words([1, 3, 5, 7, 9], [1, 2, 3, 2, 1])
    assert run(predicates, [total, A], data) == ([[5, 9, 10], [3, 7, 9]], [1, 3, 4])


def test_an_error_in_an_output_row_is_raised_with_its_operands() -> None:
    with pytest.raises(DataError, match=r"division by zero in 5 / 0\nhint"):
        run([], [call("div", A, B)], words([4, 5], [2, 0]))
    with pytest.raises(DataError, match=r"INTEGER out of range in \d+ \+ 1"):
        run([], [call("add", A, integer(1))], words([2**31 - 1]))


def test_an_error_in_a_rejected_row_is_no_error() -> None:
    quotient = call("gt", call("div", A, B), integer(1))
    data = words([4, 5], [2, 0])
    assert run([call("ne", B, integer(0)), quotient], [A], data) == ([[4]], [0])
    assert run([quotient, call("ne", B, integer(0))], [A], data) == ([[4]], [0])
    with pytest.raises(DataError, match="division by zero"):
        run([call("eq", B, B), quotient], [A], data)


def test_case_takes_only_its_branch() -> None:
    guarded = If(call("eq", B, integer(0)), integer(-1), call("div", A, B), INTEGER)
    assert run([], [guarded], words([4, 5], [2, 0])) == ([[2, -1]], None)
    assert run([], [call("coalesce", A, call("div", A, B))], words([4], [0])) == ([[4]], None)


def test_bigint_and_decimal_overflow() -> None:
    big = Column(0, BIGINT)
    assert run([], [call("sub", big, Literal(1, BIGINT))], words([MIN_WORD + 1])) == ([[MIN_WORD]], None)
    assert run([], [call("mul", big, Literal(-1, BIGINT))], words([MIN_WORD])) == ([[2**63 - 2]], None)
    for failing in (call("sub", big, Literal(1, BIGINT)), call("mul", big, Literal(3, BIGINT))):
        with pytest.raises(DataError, match="BIGINT out of range"):
            run([], [failing], words([MIN_WORD]))
    price, factor = Column(0, MONEY), Column(1, MONEY)
    assert run([], [call("mul", price, factor)], words([10**9], [10**8])) == ([[10**17]], None)
    with pytest.raises(DataError, match=r"DECIMAL\(18, 4\) out of range"):
        run([], [call("mul", price, factor)], words([10**10], [10**8]))
    assert call("mul", Column(0, decimal(18, 10)), Column(1, decimal(18, 10))).type == NUMERIC


def test_doubles_overflow_and_not_a_number() -> None:
    x = Column(0, DOUBLE)
    with pytest.raises(DataError):
        run([], [call("mul", x, x)], words([float_to_word(1e200)]))
    with pytest.raises(DataError):
        run([], [call("sqrt", x)], words([float_to_word(-1.0)]))
    inf = float_to_word(float("inf"))
    assert run([], [call("add", x, x)], words([inf])) == ([[inf]], None)


def test_fetch_reads_the_row_store_for_rows_that_survive() -> None:
    engine = Engine(tables={"t": Rows(words([10, 20, 30, 40], [1, 0, 1, 0]))})
    rowid = Column(0, ROWID)
    value, flag = Fetch("t", 0, rowid, INTEGER), Fetch("t", 1, rowid, INTEGER)
    data = words([3, 2, 0, NULL])
    assert run([call("eq", flag, integer(1))], [value], data, engine) == ([[30, 10]], [1, 2])
    assert run([], [call("add", value, integer(1))], data, engine) == ([[41, 31, 11, NULL]], None)


def test_fetch_sees_a_row_store_that_was_replaced() -> None:
    store = Rows(words([10, 20]))
    compiled = CompiledMfp(Mfp((), (Fetch("t", 0, Column(0, ROWID), INTEGER),)), Engine(tables={"t": store}))
    assert compiled.run(words([1]))[0].tolist() == [[20]]
    store.columns, store.groups = words([10, 21, 30]), None
    assert compiled.run(words([1, 2]))[0].tolist() == [[21, 30]]


def test_text_functions_run_once_for_each_distinct_string(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    codes = engine.dictionary.intern(["PROMO TIN", "BRASS", "PROMO TIN", None])
    compiled = CompiledMfp(Mfp((), (call("length", Column(0, TEXT)),)), engine)
    assert compiled.run(codes.reshape(1, -1))[0].tolist() == [[9, 5, 9, NULL]]
    asked: list[int] = []
    monkeypatch.setattr(Memo, "fill", lambda self, codes: asked.extend(codes))
    assert compiled.run(codes.reshape(1, -1))[0].tolist() == [[9, 5, 9, NULL]]
    assert asked == []


def test_like_runs_only_for_strings_that_other_predicates_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    codes = engine.dictionary.intern(["PROMO TIN", "BRASS", "PROMO STEEL"])
    asked: list[int] = []
    fill = Memo.fill
    monkeypatch.setattr(Memo, "fill", lambda self, codes: (asked.extend(codes), fill(self, codes))[1])
    predicates = [call("like", Column(0, TEXT), text("PROMO%")), call("gt", Column(1, INTEGER), integer(1))]
    data = np.vstack((codes, [1, 2, 3]))
    assert run(predicates, [Column(1, INTEGER)], data, engine) == ([[3]], [2])
    assert sorted(asked) == [1, 2]


def test_nested_text_functions_and_text_comparison() -> None:
    engine = Engine()
    first, second = Column(0, TEXT), Column(1, TEXT)
    data = np.vstack(
        (engine.dictionary.intern(["abc", "b", None]), engine.dictionary.intern(["abd", "azzz", "x"]))
    )
    prefix = call("upper", call("substring", first, integer(1), integer(2)))
    out, _ = CompiledMfp(Mfp((), (prefix, call("concat", first, second))), engine).run(data)
    assert engine.dictionary.decode(out[0]) == ["AB", "B", None]
    assert engine.dictionary.decode(out[1]) == ["abcabd", "bazzz", None]
    assert run([], [call("lt", first, second)], data, engine) == ([[1, 0, NULL]], None)


def test_functions_of_two_columns_see_only_rows_that_cheap_predicates_leave() -> None:
    engine = Engine()
    codes = engine.dictionary.intern(["a-b", "c-d"])
    part = call("split_part", Column(0, TEXT), text("-"), Column(1, INTEGER))
    data = np.vstack((codes, [0, 2]))
    out, kept = CompiledMfp(Mfp((call("gt", Column(1, INTEGER), integer(0)),), (part,)), engine).run(data)
    assert engine.dictionary.decode(out[0]) == ["d"] and kept is not None and kept.tolist() == [1]
    with pytest.raises(DataError, match="field position must not be zero in split_part"):
        run([], [part], data, engine)


def test_cast_of_text_that_means_nothing_names_the_text() -> None:
    engine = Engine()
    data = engine.dictionary.intern(["12", "x1"]).reshape(1, -1)
    with pytest.raises(DataError, match='invalid input syntax for type integer: "x1"'):
        run([], [Call("cast", (Column(0, TEXT),), INTEGER)], data, engine)


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("nulls_first", [0, 1])
def test_order_words_sort_as_values(descending: int, nulls_first: int) -> None:
    engine = Engine()
    strings = ["", "a", "a\0", "ab", "abcdefg", "abcdefgh", "abcdefghijklmnopqrstuvwxyz", "b", "z", "é"]
    codes = engine.dictionary.intern([*strings[::-1], None]).reshape(1, -1)
    flags = (integer(descending), integer(nulls_first))
    outputs = [Call("order_word", (Column(0, TEXT), *flags, integer(part)), BIGINT) for part in range(4)]
    out, _ = CompiledMfp(Mfp((), tuple(outputs)), engine).run(codes)
    order = sorted(range(out.shape[1]), key=lambda i: out[:, i].tolist())
    wanted: list[str | None] = [*(strings[::-1] if descending else strings)]
    wanted.insert(0 if nulls_first else len(wanted), None)
    assert engine.dictionary.decode(codes[0][order]) == wanted
    number = Call("order_word", (Column(0, BIGINT), *flags, integer(0)), BIGINT)
    values = [MIN_WORD + 2, -5, 0, 7, 2**62]
    out, _ = CompiledMfp(Mfp((), (number,)), engine).run(words([*values, NULL]))
    order = np.argsort(out[0]).tolist()
    wanted_order = [*range(5)][:: -1 if descending else 1]
    wanted_order.insert(0 if nulls_first else 5, 5)
    assert order == wanted_order


def test_membership_of_many_and_of_null() -> None:
    many = call("in", A, *(integer(value) for value in range(0, 3000, 3)))
    assert run([], [many], words([3, 4, NULL])) == ([[1, 0, NULL]], None)
    assert run([], [call("in", A, integer(1), integer(None))], words([1, 2])) == ([[1, NULL]], None)


def test_errors_are_values_until_they_are_needed() -> None:
    quotient = call("eq", call("div", A, B), integer(1))
    never = call("and", Literal(0, BOOLEAN), quotient)
    always = call("or", quotient, Literal(1, BOOLEAN))
    assert run([], [never, always], words([1], [0])) == ([[0], [1]], None)
    assert vm.ERROR == ERROR and vm.NULL == NULL


def test_a_date_beyond_the_calendar_is_an_error() -> None:
    date = Column(0, DATE)
    assert run([], [call("add", date, integer(1))], words([-1, 0])) == ([[0, 1]], None)
    with pytest.raises(DataError):
        run([], [call("add", date, integer(2**31 - 1))], words([0]))


def test_numerics_in_between_become_no_strings() -> None:
    money, count = Column(0, MONEY), Column(1, BIGINT)
    mean = Call("$mean", (money, count), NUMERIC)
    chosen = If(Call("gt", (count, Literal(2, BIGINT)), BOOLEAN), mean, Literal(None, NUMERIC), NUMERIC)
    fifth = Call("mul", (Literal("p199999" + "2", NUMERIC), chosen), NUMERIC)
    bound = Call("$above", (fifth,), MONEY)
    engine = Engine()
    compiled = CompiledMfp(Mfp((), (bound, money)), engine)
    before = len(engine.dictionary)
    out, _ = compiled.run(words([1000, 1000, NULL, 7, 999, 100], [3, 2, 5, 0, NULL, 4]))
    assert out[0].tolist() == [67, NULL, NULL, NULL, NULL, 5]  # 0.2 * 3.3333333333333333 is above 0.66
    assert len(engine.dictionary) == before
    wide = np.tile(words([1000], [3]), 40)
    assert CompiledMfp(Mfp((), (bound,)), engine).run(wide)[0].tolist() == [[67] * 40]


def test_an_error_within_a_fused_call_is_one_where_its_branch_is_taken() -> None:
    quotient = Call("div", (A, Call("cast", (B,), NUMERIC)), NUMERIC)
    rounded = Call("round", (quotient, integer(1)), NUMERIC)
    guarded = If(Call("ne", (B, integer(0)), BOOLEAN), quotient, Literal(None, NUMERIC), NUMERIC)
    outer = Call("round", (guarded, integer(1)), NUMERIC)
    engine = Engine()
    out, _ = CompiledMfp(Mfp((), (outer,)), engine).run(words([5, 5], [0, 2]))
    assert out[0, 0] == NULL and engine.dictionary.get(int(out[0, 1])) == "p20000025"
    with pytest.raises(DataError, match="division by zero"):
        CompiledMfp(Mfp((), (rounded,)), engine).run(words([5, 5], [0, 2]))


def test_numbers_in_units_are_decimals() -> None:
    """What few rows take the quick way gives the strings, and bounds the words, that decimals give."""
    rng = random.Random(7)
    money, units, count = Column(0, MONEY), Column(1, decimal(18, 5)), Column(2, BIGINT)
    mean = Call("$mean", (money, count), NUMERIC)
    seventh = Literal("p199999142857", NUMERIC)
    others = Call("add", (Call("cast", (units,), NUMERIC), seventh), NUMERIC)
    sign = Call("gt", (count, Literal(0, BIGINT)), BOOLEAN)
    made = [
        Call("mul", (seventh, mean), NUMERIC),
        Call("sub", (Call("mul", (mean, others), NUMERIC), Call("neg", (others,), NUMERIC)), NUMERIC),
        Call("div", (Call("mul", (seventh, mean), NUMERIC), others), NUMERIC),
        If(sign, Call("div", (units, Call("cast", (count,), NUMERIC)), NUMERIC), mean, NUMERIC),
    ]
    engine = Engine()
    rows = np.array(
        [
            [rng.choice((rng.randint(-(10**6), 10**6), rng.randint(-(10**17), 10**17))) for _ in range(40)]
            for _ in range(3)
        ]
    )
    rows[2, rows[2] == 0] = 1
    for numeric in made:
        many, _ = CompiledMfp(Mfp((), (numeric,)), engine).run(rows)
        few, _ = CompiledMfp(Mfp((), (numeric,)), engine).run(np.ascontiguousarray(rows[:, :20]))
        assert few[0].tolist() == many[0, :20].tolist()
        for function, type_ in (("$below", MONEY), ("$above", decimal(18, 7)), ("$above", BIGINT)):
            apart = CompiledMfp(Mfp((), (Call(function, (Column(0, NUMERIC),), type_),)), engine)
            fused = CompiledMfp(Mfp((), (Call(function, (numeric,), type_),)), engine)
            assert fused.run(rows)[0].tolist() == apart.run(many)[0].tolist()


def test_the_word_that_memos_cannot_keep_is_an_error() -> None:
    engine = Engine()
    compiled = CompiledMfp(Mfp((), (Call("cast", (Column(0, TEXT),), BIGINT),)), engine)
    assert compiled.run(words([engine.dictionary.code(str(MIN_WORD + 1))]))[0].tolist() == [[MIN_WORD + 1]]
    with pytest.raises(DataError, match=f"{MIN_WORD}"):
        compiled.run(words([engine.dictionary.code(str(MIN_WORD))]))
