"""The runtime's primitives for Datalog, against values worked out by hand."""

import math

import numpy as np
import pytest

from kpg.compiler.rules.core import PRIMITIVES
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.errors import DataError
from kpg.runtime.functions import implementation
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, NULL, TEXT, Type, float_to_word
from tests.unit.functions.expressions import Engine

Value = int | str | float | None
FAILS = "error"
DEEP = '$Add([1, "a, [b\\"", nil], $Zero)'


def literal(value: Value) -> Scalar:
    match value:
        case str():
            return Literal(value, TEXT)
        case float():
            return Literal(float_to_word(value), DOUBLE)
        case _:
            return Literal(value, BIGINT)


def word(call: Call, engine: Engine) -> int:
    out, _ = CompiledMfp(Mfp((), (call,)), engine).run(np.empty((0, 1), dtype=np.int64))
    return int(out[0, 0])


@pytest.mark.parametrize(
    ("function", "args", "type_", "expected"),
    [
        ("$unsigned", (7,), BIGINT, 7),
        ("$unsigned", (-1,), BIGINT, FAILS),
        ("$wrap_number", (2**31,), BIGINT, -(2**31)),
        ("$wrap_number", (-(2**31) - 1,), BIGINT, 2**31 - 1),
        ("$wrap_unsigned", (-1,), BIGINT, 2**32 - 1),
        ("$wrap_product", (2**32 - 1, 2**32 - 1), BIGINT, 1),
        ("$power", (-3, 3), BIGINT, -27),
        ("$power", (2, 63), BIGINT, FAILS),
        ("$power", (2, 10**9), BIGINT, FAILS),
        ("$power", (-1, 10**9 + 1), BIGINT, -1),
        ("$power", (2, -1), BIGINT, 0),
        ("$power", (0, -1), BIGINT, FAILS),
        ("$wrap_power", (3, 40), BIGINT, 3**40 % 2**32),
        ("$band", (12, 10), BIGINT, 8),
        ("$bor", (12, 10), BIGINT, 14),
        ("$bxor", (12, 10), BIGINT, 6),
        ("$bnot", (0,), BIGINT, -1),
        ("$bnot", (2**63 - 1,), BIGINT, FAILS),
        ("$bshl", (3, 2), BIGINT, 12),
        ("$bshl", (1, 64), BIGINT, 1),
        ("$bshr", (-8, 1), BIGINT, -4),
        ("$bshru", (-1, 60), BIGINT, 15),
        ("$land", (2, 0), BIGINT, 0),
        ("$lor", (2, 0), BIGINT, 1),
        ("$lxor", (2, 1), BIGINT, 0),
        ("$lnot", (0,), BIGINT, 1),
        ("$substr", ("abcd", 1, 2), TEXT, "bc"),
        ("$quotient", (3.0, 2.0), DOUBLE, 1.5),
        ("$quotient", (-3.0, 0.0), DOUBLE, -math.inf),
        ("$six_places", (3.14,), TEXT, "3.140000"),
        ("$whole_number", ("-0xBEEF",), BIGINT, -48879),
        ("$whole_number", ("0b101",), BIGINT, 5),
        ("$whole_number", (" 12 ",), BIGINT, 12),
        ("$whole_number", ("12a",), BIGINT, FAILS),
        ("$float_bits", (1.5,), BIGINT, 0x3FF8000000000000),
        ("$float_bits32", (0.1,), BIGINT, 0x3DCCCCCD),
        ("$bits_float", (0x3FF8000000000000,), DOUBLE, 1.5),
        ("$bits_float32", (0x3FC00000,), DOUBLE, 1.5),
        ("$number_or_zero", ("12a",), BIGINT, 0),
        ("$number_or_zero", ("-12",), BIGINT, -12),
        ("$number_or_zero", ("+7",), BIGINT, 7),
        ("$number_or_zero", (" 7",), BIGINT, 0),
        ("$number_or_zero", ("2147483648",), BIGINT, 0),
        ("$full_match", ("[[:digit:]]+", "0123"), BOOLEAN, 1),
        ("$substr", ("abcd", 3, 9), TEXT, "d"),
        ("$substr", ("abcd", -1, 2), TEXT, ""),
        ("$substr", ("abcd", 0, -1), TEXT, ""),
        ("$full_match", ("a.*", "abc"), BOOLEAN, True),
        ("$full_match", ("b", "abc"), BOOLEAN, False),
        ("$full_match", ("(", "abc"), BOOLEAN, None),
        ("$quote", ('a"\\\n',), TEXT, '"a\\"\\\\\\n"'),
        ("$unquote", ('"a\\"\\\\\\n"',), TEXT, 'a"\\\n'),
        ("$unquote", ("12",), TEXT, None),
        ("$show", (-12,), TEXT, "-12"),
        ("$show", (0.1,), TEXT, "0.1"),
        ("$record", ("1", '"a"', "nil"), TEXT, '[1, "a", nil]'),
        ("$branch", ("Zero",), TEXT, "$Zero"),
        ("$branch", ("Add", "1", "$Zero"), TEXT, "$Add(1, $Zero)"),
        ("$branch_of", (DEEP,), TEXT, "Add"),
        ("$branch_of", ("$Zero",), TEXT, "Zero"),
        ("$branch_of", ("[1]",), TEXT, ""),
        ("$branch_of", ("nil",), TEXT, "nil"),
        ("$field", (DEEP, 0), TEXT, '[1, "a, [b\\"", nil]'),
        ("$field", (DEEP, 1), TEXT, "$Zero"),
        ("$field", (DEEP, 2), TEXT, None),
        ("$field", ('[1, "a, [b\\"", nil]', 1), TEXT, '"a, [b\\""'),
        ("$field", ("[]", 0), TEXT, None),
        ("$field", ("nil", 0), TEXT, None),
        ("$number", ("-12",), BIGINT, -12),
        ("$number", ('"12"',), BIGINT, None),
        ("$number", ("9" * 30,), BIGINT, FAILS),
        ("$float", ("0.1",), DOUBLE, 0.1),
        ("$float", ("[1]",), DOUBLE, None),
    ],
)
def test_value(function: str, args: tuple[Value, ...], type_: Type, expected: Value) -> None:
    engine = Engine()
    call = Call(function, tuple(map(literal, args)), type_)
    if expected == FAILS:
        with pytest.raises(DataError):
            word(call, engine)
    else:
        assert to_python(word(call, engine), type_, engine.dictionary) == expected


def test_null_gives_null() -> None:
    rows = np.array([[5, NULL, 5], [3, 3, NULL]], dtype=np.int64)
    call = Call("$band", (Column(0, BIGINT), Column(1, BIGINT)), BIGINT)
    out, _ = CompiledMfp(Mfp((), (call,)), Engine()).run(rows)
    assert out[0].tolist() == [1, NULL, NULL]


def test_ord_is_the_code_of_the_text() -> None:
    engine = Engine()
    code = engine.dictionary.code("a")
    call = Call("$ord", (Column(0, TEXT),), BIGINT)
    out, _ = CompiledMfp(Mfp((), (call,)), engine).run(np.array([[code]], dtype=np.int64))
    assert out[0, 0] == code


def test_every_primitive_exists() -> None:
    for name in PRIMITIVES:
        assert implementation(Call(name, (), BIGINT)) is not None
