"""What FlowLog's programs mean: how operators bind, what aggregates range over, blocks, comments."""

import pytest

import kpg
from kpg.compiler.catalog import Catalog
from kpg.compiler.datalog.check import check
from kpg.runtime.errors import DatalogError

EDGES = """
# three edges, and one more weight
.decl e(x: int32, y: int32, w: int32)  # from, to
e(1, 2, 5). e(1, 3, 5). e(2, 3, 7). e(2, 3, 8).
"""
CASES = [
    ("sum", "int32", "s(x, SUM(w)) :- e(x, _, w).", {(1, 5), (2, 15)}),
    ("count", "int32", "s(x, count(y)) :- e(x, y, _).", {(1, 2), (2, 1)}),
    ("count of two rules", "int32", "s(x, count(y)) :- e(x, y, _). s(y, count(x)) :- e(x, y, _).",
     {(1, 2), (2, 2), (3, 2)}),
    ("whole means", "int32", "s(x, AVG(w)) :- e(x, _, w).", {(1, 5), (2, 7)}),
    ("means", "f64", "s(x, average(w)) :- e(x, _, w).", {(1, 5.0), (2, 7.5)}),
    ("min", "int32", "s(x, MIN(w * 2)) :- e(x, _, w).", {(1, 10), (2, 14)}),
    ("left to right", "int32", "s(x, x + y * 2) :- e(x, y, 5).", {(1, 6), (1, 8)}),
    ("parentheses", "int32", "s(x, x + (y * 2)) :- e(x, y, 5).", {(1, 5), (1, 7)}),
    ("booleans", "bool", "s(x, True) :- e(x, _, 7). s(x, False) :- e(x, 2, _).", {(2, True), (1, False)}),
    ("texts", "string", 's(1, r"a\\d" cat "#b"). # that was one', {(1, "a\\d#b")}),
    ("a fixed point", "int32", "s(x, y) :- e(x, y, _). fixpoint { s(x, z) :- s(x, y), e(y, z, _). }",
     {(1, 2), (1, 3), (2, 3)}),
]  # fmt: skip
CHAIN = """
.decl e(x: int32, y: int32) e(1, 2). e(2, 3). e(3, 4). e(4, 5).
.decl s(x: int32, y: int32) s(x, y) :- e(x, y), x = 1.
"""


@pytest.mark.parametrize(
    ("type_", "rules", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_meanings(type_: str, rules: str, expected: set[tuple[object, ...]]) -> None:
    program = kpg.connect().datalog(f"{EDGES}.decl s(x: int32, v: {type_})\n{rules}")
    assert set(program.rows("s")) == expected


def test_aggregates_follow_changes() -> None:
    db = kpg.connect()
    program = db.datalog(EDGES + ".decl s(x: int32, n: int32) .output s s(x, sum(w)) :- e(x, _, w).")
    db.datalog("-e(1, 2, 5). +e(2, 9, 8). -e(2, 3, 7).")
    assert set(program["s"]) == {(1, 5), (2, 8)}
    db.datalog("-e(1, 3, 5).")
    assert set(program["s"]) == {(2, 8)}


@pytest.mark.parametrize(
    ("condition", "last"), [("@it <= 0", 3), ("@it <= 1", 4), ("@it < 1", 3), ("@it <= 9", 5)]
)
def test_loops(condition: str, last: int) -> None:
    rules = f"loop while {{ {condition} }} {{ s(x, z) :- s(x, y), e(y, z). }}"
    found = kpg.connect().datalog(CHAIN + rules).rows("s")
    assert set(found) == {(1, y) for y in range(2, last + 1)}


def test_loops_of_several_relations_read_what_all_were_a_round_before() -> None:
    text = """
        .decl e(x: int32, y: int32)
        e(1, 2). e(2, 3). e(3, 4). e(4, 5).
        .decl odd(x: int32, y: int32)
        .decl even(x: int32, y: int32)
        odd(x, y) :- e(x, y).
        loop while { @it <= 1 } {
            even(x, z) :- odd(x, y), e(y, z).
            odd(x, z) :- even(x, y), e(y, z).
        }
    """
    assert check(text, Catalog()).warnings == ()
    program = kpg.connect().datalog(text)
    assert set(program["even"]) == {(1, 3), (2, 4), (3, 5)}
    assert set(program["odd"]) == {(1, 2), (2, 3), (3, 4), (4, 5), (1, 4), (2, 5)}


def test_a_loop_ends_after_the_round_in_which_a_relation_has_a_row() -> None:
    text = """
        .decl e(x: int32, y: int32)
        e(1, 2). e(2, 3). e(3, 4). e(4, 5). e(5, 6).
        .decl target(x: int32)
        target(3).
        .decl r(x: int32, y: int32)
        .decl done()
        .decl far(x: int32)
        r(x, y) :- e(x, y).
        loop until { done } {
            r(x, z) :- r(x, y), e(y, z).
            done() :- r(1, y), target(y).
            far(y) :- r(1, y).
        }
    """
    program = kpg.connect().datalog(text)
    # In the first round 1 reaches 3, in the second that is seen, and one more step is made.
    assert set(program["r"]) == {(x, y) for x in range(1, 6) for y in range(x + 1, min(x + 4, 7))}
    assert len(program["done"]) == 1 and sorted(program["far"]) == [(2,), (3,)]
    program.update("-target(3). +target(2).")
    assert set(program["r"]) == {(x, y) for x in range(1, 6) for y in range(x + 1, min(x + 3, 7))}
    program.update("-target(2).")
    assert len(program["r"]) == 15 and len(program["done"]) == 0


def test_operators_that_bind_otherwise_get_a_warning() -> None:
    text = EDGES + ".decl s(x: int32) s(x + y * 2) :- e(x, y, _). s(x * y + 2) :- e(x, y, _)."
    (found,) = [one for one in check(text, Catalog()).warnings if one.code == "precedence"]
    assert found.message == "FlowLog's operators are read from left to right"
    assert found.span is not None and found.span.source[found.span.start :].startswith("x + y * 2")
    plain = ".decl e(x: number, y: number) e(1, 2). .decl s(x: number) s(x + y * 2) :- e(x, y)."
    assert check(plain, Catalog()).warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loop until { s and e } { s(x, z) :- s(x, y), e(y, z). }", "until is not supported"),
        (
            "loop until { e } { s(x, z) :- s(x, y), e(y, z). }",
            "a loop of relations that are not declared before it or are inputs, or until one of others, "
            "is not supported",
        ),
        (
            "loop while { @it <= 3 } until { s } { s(x, z) :- s(x, y), e(y, z). }",
            "a loop with several conditions is not supported",
        ),
        (
            "loop while { @it >= 3 } { s(x, z) :- s(x, y), e(y, z). }",
            "a loop over other rounds than the first is not supported",
        ),
        ("fixpoint { .iterative s s(x, z) :- s(x, y), e(y, z). }", ".iterative is not supported"),
        (
            "loop while { @it <= 100 } { s(x, z) :- s(x, y), e(y, z). e(x, y) :- s(x, y). }",
            "a loop of relations that are not declared before it, or of more than 200 rounds for all of them "
            "is not supported",
        ),
        (
            "fixpoint { s(x, z) :- s(x, y), e(y, z). } s(y, x) :- e(x, y).",
            "a rule for s behind a block that reads it is not supported",
        ),
        (
            ".input s loop while { @it <= 3 } { s(x, z) :- s(x, y), e(y, z). }",
            "a loop of s, which is an input, is not supported",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(DatalogError) as caught:
        check(CHAIN + text, Catalog())
    assert caught.value.message == message and caught.value.span is not None
