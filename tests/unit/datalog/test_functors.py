"""Functors that users declare and write in Python, and the database's functions in rules."""

import sys
from pathlib import Path

import pytest

import kpg
from kpg.cli import main
from kpg.runtime.errors import DatalogError

TEXT = """
.functor twice(x: number): number
.functor tag(s: symbol, f: float): symbol stateful
.decl a(x: number) .input a a(1). a(2).
.decl b(x: number, s: symbol) .output b
b(@twice(x), @tag("t", to_float(x))) :- a(x), @twice(x) > 1.
"""
FUNCTORS = {"twice": lambda x: 2 * x, "tag": lambda s, f: f"{s}{f:.1f}"}


def test_functors_follow_changes_and_goals() -> None:
    program = kpg.connect().datalog(TEXT, functors=FUNCTORS)
    assert sorted(program["b"]) == [(2, "t1.0"), (4, "t2.0")]
    program.update("+a(7). -a(1).")
    assert sorted(program["b"]) == [(4, "t2.0"), (14, "t7.0")]
    assert list(program.query("?- b(14, s).")) == [("t7.0",)]
    assert 'tag("t", cast(x))' in program.explain("b", "rules")


def test_functions_of_the_database() -> None:
    db = kpg.connect()
    db.create_function("thrice", lambda x: 3 * x, [int], int)
    program = db.datalog(
        ".functor thrice(x: number): number .decl a(x: number) a(1). .decl b(x: number)"
        "b(@thrice(x)) :- a(x). b(thrice(x) + 100) :- a(x)."
    )
    assert sorted(program.rows("b")) == [(3,), (103,)]


def test_functions_of_flowlog() -> None:
    text = (
        ".extern fn half(x: int32) -> int32 .decl a(x: int32) a(9). .decl b(x: int32) b(half(x) + 1) :- a(x)."
    )
    assert list(kpg.connect().datalog(text, functors={"half": lambda x: x // 2}).rows("b")) == [(5,)]


def test_records_are_texts() -> None:
    text = (
        '.type R = [x: number, s: symbol] .functor turn(r: R): R .decl a(r: R) a([1, "u"]).'
        ".decl b(x: number) b(x) :- a(r), @turn(r) = [x, _]."
    )
    found = kpg.connect().datalog(text, functors={"turn": lambda r: r.replace("1", "5")}).rows("b")
    assert list(found) == [(5,)]


def test_a_functor_that_gives_nothing() -> None:
    with pytest.raises(kpg.DataError, match="it gave None"):
        kpg.connect().datalog(
            ".functor f(x: number): number .decl a(x: number) a(@f(x)) :- x = 1. .output a",
            functors={"f": lambda x: None},
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ".functor f(x: number): number .decl a(x: number) a(@f(1)) :- true.",
            "there is no function for functor f",
        ),
        (".decl a(x: number) a(@g(1)) :- true.", "functor @g is not declared"),
        (".functor f(x: number): number .functor f(): symbol", "functor f is already defined"),
        (".functor f(x: nothing): number", "type nothing is not defined"),
        (
            '.functor thrice(x: symbol): number .decl a(x: number) a(@thrice("a")) :- true.',
            "function thrice is not as functor thrice is declared",
        ),
        (
            '.decl s(x: symbol) s("u"). .decl a(x: number) a(thrice(x)) :- s(x).',
            "thrice does not take (VARCHAR)",
        ),
        (".functor f(x: number): number .decl a(x: number) a(@f(1, 2)) :- true.",
         "functor @f takes 1 argument, 2 are given"),
        ('.functor f(x: number): number .decl a(x: number) a(@f("u")) :- true.',
         'type mismatch: "u" is symbol, not number (an argument of @f)'),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    db = kpg.connect()
    db.create_function("thrice", lambda x: 3 * x, [int], int)
    with pytest.raises(DatalogError) as caught:
        db.datalog(text)
    assert message in [one.message for one in caught.value.diagnostics]


def test_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "p.dl").write_text(
        "#include <base.dl>\n.functor f(x: number): number .decl b(x: number) b(@f(N)) :- a(). .output b()"
    )
    (tmp_path / "f.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "base.dl").write_text(".decl a() a().\n")
    options = ["-I", str(tmp_path / "lib"), "-M", "N=4 M", "-l", str(tmp_path / "f.py"), "-D-", "-j4", "-w"]
    monkeypatch.setattr(sys, "argv", ["kpg", "datalog", "run", str(tmp_path / "p.dl"), *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert capsys.readouterr().out == f"{'-' * 15}\nb\nx\n{'=' * 15}\n5\n{'=' * 15}\n"


@pytest.mark.parametrize("is_legacy", [False, True])
def test_legacy_programs_narrow_types_in_heads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, is_legacy: bool
) -> None:
    text = ".type N <: number .decl a(x: number) a(1). .decl b(x: N) output b(x) :- a(x)."
    (tmp_path / "p.dl").write_text(text)
    options = ["-D-", *(["--legacy"] if is_legacy else [])]
    monkeypatch.setattr(sys, "argv", ["kpg", "datalog", "run", str(tmp_path / "p.dl"), *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert bool(left.value.code) is not is_legacy
    told = capsys.readouterr()
    assert ("not N (column x of b)" in told.err) is not is_legacy
    assert "deprecated" not in told.err


def test_as_makes_numbers_of_other_values() -> None:
    program = kpg.connect().datalog("""
        .type L = [h: number, t: L]
        .decl s(x: symbol) s("a"). s("b").
        .decl l(x: L) l(nil). l([1, nil]). l([2, [1, nil]]).
        .decl n(x: symbol, y: number) n(x, as(x, number)) :- s(x).
        .decl same(x: symbol) same(x) :- n(x, y), y = ord(x).
        .decl before(x: L, y: L) before(x, y) :- l(x), l(y), as(x, number) < as(y, number).
        .decl empty(x: L) empty(x) :- l(x), as(x, number) = 0.
        .decl u(x: unsigned) u(as(y, unsigned)) :- n(_, y). u(as(7, unsigned)).
        .decl back(x: number) back(as(x, number)) :- u(x).
    """)
    assert set(program["same"]) == {("a",), ("b",)} and list(program["empty"]) == [("nil",)]
    assert len(program["before"]) == 3 and len(program["u"]) == 3 == len(program["back"])
    small = kpg.connect().datalog("""
        .pragma "number-size" "32"
        .decl a(x: number) a(-1).
        .decl u(x: unsigned) u(as(x, unsigned)) :- a(x).
        .decl back(x: number) back(as(x, number)) :- u(x).
    """)
    assert list(small["u"]) == [(4294967295,)] and list(small["back"]) == [(-1,)]


@pytest.mark.parametrize(("target", "kind"), [("symbol", "number"), ("L", "number")])
def test_as_makes_nothing_else(target: str, kind: str) -> None:
    text = f".type L = [h: number, t: L] .decl a(x: {kind}) .decl b(x: {target}) b(as(x, {target})) :- a(x)."
    with pytest.raises(kpg.errors.DatalogError, match=f"variable x is {kind} .* and {target}"):
        kpg.connect().datalog(text)


def test_a_pattern_that_is_none_matches_nothing_and_is_not_missed_either() -> None:
    program = kpg.connect().datalog("""
        .decl s(x: symbol) s("abc"). s("[").
        .decl yes(x: symbol) .output yes
        yes(x) :- s(x), match("[", x).
        .decl no(x: symbol) .output no
        no(x) :- s(x), !match("[a", x).
        .decl which(x: symbol, y: symbol) .output which
        which(x, y) :- s(x), s(y), match(x, y).
        .decl others(x: symbol, y: symbol) .output others
        others(x, y) :- s(x), s(y), !match(x, y).
    """)
    assert [set(program[name]) for name in ("yes", "no")] == [set(), set()]
    assert set(program["which"]) == {("abc", "abc")} and set(program["others"]) == {("abc", "[")}
    assert [one.code for one in program.warnings] == ["pattern", "pattern"]


def test_texts_go_over_lines() -> None:
    text = '.decl s(x: symbol) .output s\ns("a\nb"). s("c // d").\n// "\ns("e\n/* f */").'
    assert set(kpg.connect().datalog(text).rows("s")) == {("a\nb",), ("c // d",), ("e\n/* f */",)}


def test_floats_with_an_exponent() -> None:
    text = ".decl s(x: float) .output s s(1e3). s(2.5e-3). s(1E+2)."
    assert set(kpg.connect().datalog(text).rows("s")) == {(1000.0,), (0.0025,), (100.0,)}


FOLDS = """
    .functor most(x: number, y: number): number
    .functor join(x: symbol, y: symbol): symbol
    .functor plus(x: float, y: float): float
    .type I = [lo: number, hi: number]
    .functor lub(x: I, y: I): I stateful
    .decl a(k: symbol, x: number) +a("p", 3). +a("p", 5). +a("q", 1).
    .decl m(k: symbol, x: number) .output m
    m(k, x) :- a(k, _), x = @@most y : 0, { a(k, y) }.
    .decl none(x: number) .output none
    none(x) :- x = @@most y : -7, { a("zz", y) }.
    .decl s(x: symbol) .output s
    s(x) :- x = @@join k : "", { a(k, _) }.
    .decl f(x: float) .output f
    f(x) :- x = @@plus to_float(y) : 0.5, { a(_, y) }.
    .decl i(k: symbol, x: I) i("a", [1, 2]). i("a", [0, 1]). i("b", [5, 9]).
    .decl l(k: symbol, x: I) .output l
    l(k, x) :- i(k, _), x = @@lub y : [3, 3], { i(k, y) }.
    .decl g(k: symbol, x: number) .output g
    g(k, x) :- (k = "p" ; k = "z"), x = @@most y : 4, { a(k, y), y > 1 }.
"""


def _lub(left: str, right: str) -> str:
    (a, b), (c, d) = (map(int, text.strip("[]").split(", ")) for text in (left, right))
    return f"[{min(a, c)}, {max(b, d)}]"


def test_aggregates_of_the_users() -> None:
    given = {"most": max, "join": lambda x, y: x + y, "plus": lambda x, y: x + y, "lub": _lub}
    program = kpg.connect().datalog(FOLDS, functors=given)
    names = ("m", "none", "s", "f", "l", "g")
    intervals = [("a", "[0, 3]"), ("b", "[3, 9]")]
    assert [sorted(program[name]) for name in names] == [
        [("p", 5), ("q", 1)], [(-7,)], [("ppq",)], [(9.5,)], intervals, [("p", 5), ("z", 4)],
    ]  # fmt: skip
    program.update('-a("p", 5). +a("q", 9). +a("zz", 1).')
    assert [sorted(program[name]) for name in names] == [
        [("p", 3), ("q", 9), ("zz", 1)], [(1,)], [("pqqzz",)], [(14.5,)], intervals, [("p", 4), ("z", 4)],
    ]  # fmt: skip
    assert list(program.query("?- m(k, x), x > 3.")) == [("q", 9)]


@pytest.mark.parametrize(
    ("functor", "rule", "message"),
    [
        ("f(x: number): number", "b(@@f x : 0, { a(x) }).", "functor f cannot aggregate"),
        ("f(x: number, y: number): number", "b(@@g x : 0, { a(x) }).", "functor g is not declared"),
        ("g(x: number, y: number): number", "b(@@g x : 0, { a(x) }).", "there is no function for functor g"),
        ("f(x: number, y: number): number", "b(y) :- a(z), y = @@f x : z, { a(x) }.", "must be a constant"),
        ("f(x: number, y: number): number", 'b(@@f x : "a", { a(x) }).', "what functor f takes is number"),
        ("f(x: symbol, y: symbol): symbol", 'b(@@f x : "a", { a(x) }).', "type mismatch"),
        ("f(x: number, y: number): number", "a(@@f x : 0, { a(x) }).", "cyclic aggregation"),
    ],
)
def test_aggregates_that_are_refused(functor: str, rule: str, message: str) -> None:
    text = f".functor {functor} .decl a(x: number) a(1). .decl b(x: number) {rule}"
    with pytest.raises(DatalogError, match=message) as caught:
        kpg.connect().datalog(text, functors={"f": max})
    assert caught.value.span is not None
