"""``.pragma "number-size" "32"``: what wraps, what is an error, and that the model agrees."""

import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.runtime.errors import DataError, DatalogError
from tests.model.datalog import run

SMALL = '.pragma "number-size" "32"\n'
FACTS = """
.decl p(x: number) p(2147483647). p(1). p(5).
.decl u(x: unsigned) u(4294967295). u(2).
"""
RULES = {
    ".decl r(n: number) r(n) :- n = sum x : { p(x) }.": {(-2147483643,)},
    ".decl r(n: unsigned) r(n) :- n = sum x : { u(x) }.": {(1,)},
    ".decl r(n: number) r(1 + sum x : { p(x) }) :- true.": {(-2147483642,)},
    ".decl r(k: number, n: number) r(1, sum(x)) :- p(x).": {(1, -2147483643)},
    ".decl r(n: unsigned, k: number, m: unsigned) r(sum(x), count(x), max(x)) :- u(x).": {(1, 2, 4294967295)},
    ".decl r(n: number) r(n) :- n = count : { p(_) }.": {(3,)},
    ".decl r(n: number) r(x + 1) :- p(x).": {(-2147483648,), (2,), (6,)},
    ".decl r(n: number) r(x * x) :- p(x).": {(1,), (25,)},
    ".decl r(n: number) r(-x - 2) :- p(x).": {(2147483647,), (-3,), (-7,)},
    ".decl r(n: unsigned) r(x + 1) :- u(x).": {(0,), (3,)},
    ".decl r(n: unsigned) r(x - 3) :- u(x).": {(4294967292,), (4294967295,)},
    ".decl r(n: unsigned) r(x * 2) :- u(x).": {(4294967294,), (4,)},
    ".decl r(n: unsigned) r(bnot x) :- u(x).": {(0,), (4294967293,)},
    ".decl r(n: number) r(x bshl 31) :- p(x).": {(-2147483648,)},
    ".decl r(n: number) r(n) :- n = range(2147483640, 2147483647, 5).": {(2147483640,), (2147483645,)},
    ".decl r(n: unsigned) r(n) :- n = range(2u, 0u).": {(2,), (1,)},
}


@pytest.mark.parametrize("rules", RULES)
def test_results_wrap(rules: str) -> None:
    text = SMALL + FACTS + rules
    assert set(kpg.connect().datalog(text)["r"]) == RULES[rules]
    assert run(check(text, Catalog()).program)["r"] == RULES[rules]


def test_sums_wrap_when_facts_change() -> None:
    program = kpg.connect().datalog(
        SMALL
        + ".decl p(x: number) .decl r(n: number) r(n) :- n = sum x : { p(x) }."
        + " .decl h(n: number) h(sum(x)) :- p(x)."
    )
    assert sorted(program["r"]) == [(0,)]
    assert sorted(program["h"]) == []
    program.update("+p(2147483647). +p(2147483646).")
    assert sorted(program["r"]) == sorted(program["h"]) == [(-3,)]
    program.update("-p(2147483646).")
    assert sorted(program["r"]) == sorted(program["h"]) == [(2147483647,)]


def test_larger_numbers_are_errors_where_they_come_in() -> None:
    with pytest.raises(DatalogError, match="2147483648 is out of range for number of 32 bits"):
        kpg.connect().datalog(SMALL + ".decl p(x: number) p(2147483648).")
    program = kpg.connect().datalog(SMALL + ".decl p(x: number) .decl u(x: unsigned)")
    with pytest.raises(DataError, match=r"2147483648 is out of range for number of 32 bits \(\$x\)"):
        program.update("+p($x).", x=2**31)
    with pytest.raises(DataError, match="-1 is out of range for unsigned of 32 bits"):
        program.update("+u($x).", x=-1)
    assert program.update("+p($x). +u($y).", x=-(2**31), y=2**32 - 1) == 2


def test_in_64_bits_overflow_is_an_error() -> None:
    big = ".decl p(x: number) p(9223372036854775807). p(1). .decl r(n: number) "
    for rule in ("r(x + 1) :- p(x).", "r(n) :- n = sum x : { p(x) }.", "r(sum(x)) :- p(x)."):
        with pytest.raises(DataError):
            list(kpg.connect().datalog(big + rule)["r"])
    program = kpg.connect().datalog(".decl u(x: unsigned)")
    with pytest.raises(DataError, match="-1 is out of range for unsigned of 64 bits"):
        program.update("+u($x).", x=-1)
