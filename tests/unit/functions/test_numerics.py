"""Quotients of words, without decimals in between, are those of decimals."""

import random
from decimal import Decimal

import pytest

from kpg.runtime.functions import numerics
from kpg.runtime.values.numeric import EXACT, decode, encode

REACHES = (3, 99, 10**4, 10**9, 10**18, 2**63)
SCALES = (0, 0, 2, 4, 9, 18)


@pytest.mark.parametrize(
    ("left", "left_scale", "right", "right_scale", "expected"),
    [
        (1, 0, 3, 0, "0.33333333333333333333"),
        (200, 2, 3, 0, "0.66666666666666666667"),
        (-5, 1, 1000, 2, "-0.05000000000000000000"),
        (0, 2, 7, 0, "0.00000000000000000000"),
        (10**12, 0, 3, 0, "333333333333.33333333"),
    ],
)
def test_digits_of_quotients(left: int, left_scale: int, right: int, right_scale: int, expected: str) -> None:
    assert f"{numerics.divide_scaled(left, left_scale, right, right_scale):f}" == expected


@pytest.mark.parametrize("seed", range(4))
def test_quotients_of_words_are_those_of_decimals(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(2000):
        left, right = (generator.randint(-most, most) for most in generator.choices(REACHES, k=2))
        scales = generator.choices(SCALES, k=2)
        if right:
            whole = (Decimal(n).scaleb(-scale, EXACT) for n, scale in zip((left, right), scales, strict=True))
            found = numerics.divide_scaled(left, scales[0], right, scales[1])
            expected = numerics.divide(*whole)
            assert (found, found.as_tuple().exponent) == (expected, expected.as_tuple().exponent)
            assert decode(encode(found)).as_tuple() == found.as_tuple()


def test_nothing_is_divided_by_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        numerics.divide_scaled(1, 2, 0, 0)


def test_a_quotient_is_spelled_as_its_value_is() -> None:
    chance = random.Random(7)
    for _ in range(5000):
        most = 10 ** chance.randrange(1, 19)
        left = chance.choice((0, chance.randrange(-most, most)))
        right = chance.choice((1, -1)) * chance.randrange(1, 10 ** chance.randrange(1, 12))
        scales = chance.randrange(8), chance.randrange(8)
        value = numerics.divide_scaled(left, scales[0], right, scales[1])
        assert numerics.encode_ratio(left, scales[0], right, scales[1]) == encode(value)
