"""Errors while rows are computed have the place of the operation, and words that users know."""

import pytest

import kpg

DECLARED = '.decl a(x: number, s: symbol) .input a a(1, "2"). .decl u(x: unsigned) u(3).\n'


@pytest.mark.parametrize(
    ("rule", "message", "part"),
    [
        ("b(10 / x) :- a(x, _).", "division by zero in 10 / x (x is 0)", "b(10 / x)"),
        ("b(y) :- a(x, _),\n  y = 9223372036854775807 - x - x * x.", "BIGINT out of range", "y = 9223"),
        ("b(to_number(s)) :- a(_, s).", '"zz" is no number in to_number(s)', "b(to_number(s))"),
        ("b(to_number(y)) :- u(x), a(z, _), y = x - to_unsigned(z * z).",
         "3 - unsigned(2 * 2) is -1", "y = x -"),
        ("b(n) :- a(_, _), n = sum to_number(s) : { a(_, s) }.",
         '"zz" is no number in to_number(s)', "sum to_number"),
    ],
)  # fmt: skip
def test_places(rule: str, message: str, part: str) -> None:
    db = kpg.connect()
    program = db.datalog(f"{DECLARED}.decl b(x: number) .output b\n{rule}", filename="p.dl")
    wrong = {
        "b(10": (0, "5"),
        "b(y)": (-2, "5"),
        "b(to_number(s": (7, "zz"),
        "b(to_number(y": (2, "5"),
    }
    row = next((row for begin, row in wrong.items() if rule.startswith(begin)), (9, "zz"))
    with pytest.raises(kpg.DataError) as caught:
        db.insert("a", [row])
    assert caught.value.message.startswith(message.split(" (")[0][:20])
    span = caught.value.span
    assert span is not None and span.source[span.start :].startswith(part) and span.file == "p.dl"
    assert "$" not in str(caught.value)
    assert len(list(program.rows("a"))) == 1


def test_when_several_rules_have_such_an_operation() -> None:
    rules = ".decl b(x: number) .output b\nb(1 / x) :- a(x, _).\nb(1 / y) :- a(y, _).\n"
    with pytest.raises(kpg.DataError) as caught:
        kpg.connect().datalog(DECLARED + rules + 'a(0, "").')
    assert caught.value.span is None and caught.value.hint == "it is in one of the rules at lines 3, 4"


def test_errors_of_goals() -> None:
    program = kpg.connect().datalog(DECLARED + 'a(0, "").')
    with pytest.raises(kpg.DataError) as caught:
        program.query("?- a(x, _), y = 1 / x.")
    assert caught.value.span is not None and caught.value.span.line == 1
