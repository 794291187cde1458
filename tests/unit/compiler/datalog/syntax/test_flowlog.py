"""What FlowLog's programs mean: how operators bind, what aggregates range over, blocks, comments."""

import io
from pathlib import Path

import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.datalog.output_files import write_outputs
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
    ("precedence", "int32", "s(x, x + y * 2 ^ 2 ^ 1 - -1) :- e(x, y, 5).", {(1, 10), (1, 14)}),
    ("left to right", "int32", "fixpoint { s(x, x + y * 2) :- e(x, y, 5). }", {(1, 6), (1, 8)}),
    ("signs", "int32", "s(+4, x + -1) :- e(x, +3, _), x < +2.", {(4, 0)}),
    ("names in any case", "int32",
     ".decl Far(x: int32) FAR(y) :- E(_, y, _). S(x, 0) :- far(x), X = x, !e(x, _, _).", {(3, 0)}),
    ("plans of any version", "int32", "s(x, z) :- e(x, y, 5), e(y, z, 7). .plan 1:(2, 1)", {(1, 3)}),
    ("numbers of texts", "int32",
     's(x, to_number(t)) :- x = 1, (t = "12" ; t = "-3" ; t = "1x" ; t = "99999999999").',
     {(1, 12), (1, -3), (1, 0)}),
    ("texts of numbers", "string", "s(1, to_string(1.5)). s(2, to_string(True)). s(3, to_string(2.0)).",
     {(1, "1.5"), (2, "true"), (3, "2")}),
    ("parentheses", "int32", "s(x, x + (y * 2)) :- e(x, y, 5).", {(1, 5), (1, 7)}),
    ("several aggregates", "int32", "s(count(y), sum(w)) :- e(_, y, w).", {(4, 25)}),
    ("heads with semicolons", "int32", "s(x, y); s(y, x) :- e(x, y, 7).", {(2, 3), (3, 2)}),
    ("booleans", "bool", "s(x, True) :- e(x, _, 7). s(x, False) :- e(x, 2, _).", {(2, True), (1, False)}),
    ("texts", "string", 's(1, r"a\\d" cat "#b"). # that was one', {(1, "a\\d#b")}),
    ("raw texts", "string", 's(1, r#"a"b#"#). s(2, r##"b"#"##). # r#"', {(1, 'a"b#'), (2, 'b"#')}),
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


def test_counts_and_sums_of_nothing_are_zero_where_nothing_groups() -> None:
    db = kpg.connect()
    program = db.datalog("""
        .decl e(x: int32, w: int32)
        +e(1, 5).
        .decl n(n: int32, w: int32) .output n
        n(count(x), sum(w)) :- e(x, w).
        n(count(x), sum(w)) :- e(w, x), x > 5.
        .decl m(w: int32) .output m
        m(min(w)) :- e(_, w).
        .decl k(x: int32, n: int32) .output k
        k(x, count(w)) :- e(x, w).
    """)
    assert [set(program[name]) for name in "nmk"] == [{(1, 5)}, {(5,)}, {(1, 1)}]
    program.update("-e(1, 5).")
    assert [set(program[name]) for name in "nmk"] == [{(0, 0)}, set(), set()]
    program.update("+e(2, 7).")
    assert [set(program[name]) for name in "nmk"] == [{(2, 9)}, {(7,)}, {(2, 1)}]


GAME = """
    .decl move(x: int32, y: int32) move(1, 2). move(2, 3). move(3, 4). move(1, 5). move(5, 6).
    .decl win(x: int32) .output win
    win(x) :- move(x, y), !win(y).
    .decl lost(x: int32) .output lost
    lost(y) :- move(_, y), !win(y).
"""


def test_recursion_through_negation_is_what_its_rounds_come_to() -> None:
    program = kpg.connect().datalog(GAME.replace("move(1", '.input move(IO="command") move(1', 1))
    assert [one.span.source[one.span.start :][:6] for one in program.warnings if one.span] == ["win(y)"]
    assert set(program["win"]) == {(1,), (3,), (5,)} and set(program["lost"]) == {(2,), (4,), (6,)}
    program.update("+move(4, 7).")
    assert set(program["win"]) == {(2,), (4,), (5,)} and set(program["lost"]) == {(3,), (6,), (7,)}
    program.update("-move(5, 6). -move(4, 7).")
    assert set(program["win"]) == {(1,), (3,)}
    program.update("-move(3, 4).")
    assert set(program["win"]) == {(1,), (2,)}


def test_what_a_round_derived_stays_where_facts_are_read_once() -> None:
    program = kpg.connect().datalog(GAME)  # what FlowLog 0.7 answers
    assert set(program["win"]) == {(1,), (2,), (3,), (5,)} and set(program["lost"]) == {(4,), (6,)}
    program.update("+move(4, 7).")
    assert set(program["win"]) == {(1,), (2,), (3,), (4,), (5,)}
    program.update("-move(1, 2). -move(4, 7). -move(1, 5).")
    assert set(program["win"]) == {(2,), (3,), (5,)}


INTEGERS = """
    .decl a(x: int8, y: int16, z: int32)
    a(100, 30000, 2000000000). a(-128, -32768, -2147483648).
    .decl b(x: int8, y: int16, z: int32) .output b
    b(x + 100, y * 3, z + z) :- a(x, y, z).
    b(x - 1, -y, z - 1) :- a(x, y, z).
    b(x * x, y / 7, z % 7) :- a(x, y, z).
    b(x bshl 1, y bshr 2, z bshru 3) :- a(x, y, z).
    .decl u(x: uint8, y: uint16, z: unsigned) u(200, 60000, 4000000000).
    .decl v(x: uint8, y: uint16, z: unsigned) .output v
    v(x + 100, y * 3, z + z) :- u(x, y, z).
    v(x - 201, y - 60001, z - 4000000001) :- u(x, y, z).
    .decl t(z: int32) .output t
    t(z) :- a(_, _, z), w = z + 2000000000, w < 0.
    .type Small <: int8
    .decl k(x: Small) .output k
    k(x + 100) :- a(x, _, _).
"""


def test_whole_numbers_wrap() -> None:
    program = kpg.connect().datalog(INTEGERS)  # what FlowLog 0.7 answers, compiled for release
    assert set(program["b"]) == {
        (-56, 24464, -294967296), (-28, -32768, 0), (99, -30000, 1999999999), (127, -32768, 2147483647),
        (16, 4285, 5), (0, -4681, -2), (-56, 7500, 250000000), (0, -8192, 268435456),
    }  # fmt: skip
    assert set(program["v"]) == {(44, 48928, 3705032704), (255, 65535, 4294967295)}
    assert set(program["t"]) == {(2000000000,), (-2147483648,)} and set(program["k"]) == {(-56,), (-28,)}


def test_floats_of_32_bits() -> None:
    program = kpg.connect().datalog("""
        .decl a(x: f32, y: f64) a(0.1, 0.1). a(3.14159265358979, 3.14159265358979). a(100000000.0, 1e20).
        .decl b(x: f32, y: f64) .output b
        b(x + 0.2, y + 0.2) :- a(x, y), x < 100.0.
        b(x * 1.1, y) :- a(x, y).
        .decl s(t: string) .output s
        s(to_string(x)) :- a(x, _).
        s(to_string(y)) :- a(_, y).
        .decl same(x: f32) .output same
        same(x) :- a(x, _), x = 0.1.
        .decl z(x: float) .output z
        z((x - x) / (x - x)) :- a(x, _).
    """)
    out = io.StringIO()
    write_outputs(program, "-", out)
    shown = [part.strip().split("\n") for part in out.getvalue().split("=" * 15)[1::2]]
    assert shown[0] == [
        "0.11\t0.1".replace("0.11", "0.11000001"),
        "0.3\t0.30000000000000004",
        "3.3415928\t3.34159265358979",
        "3.4557521\t3.14159265358979",
        "110000000\t100000000000000000000",
    ]
    assert shown[1:] == [
        ["0.1", "100000000", "100000000000000000000", "3.14159265358979", "3.1415927"],
        ["0.1"],
        ["NaN"],
    ]


def test_aggregates_in_bodies_are_over_named_variables() -> None:
    program = kpg.connect().datalog(
        EDGES
        + """
        .decl s(x: int32, w: int32) .output s
        s(x, t) :- e(x, _, _), t = sum w : { e(x, _, w) }.
        .decl n(x: int32, n: int32) .output n
        n(x, n) :- e(x, _, _), n = count : { e(x, y, w), w > 5 }.
        .decl k(n: int32) .output k
        k(n) :- n = count : { e(x, _, _), e(_, x, _) }.
        """
    )  # what FlowLog 0.7 answers
    assert set(program["s"]) == {(1, 5), (2, 15)} and set(program["n"]) == {(1, 0), (2, 2)}
    assert set(program["k"]) == {(1,)}


def test_columns_that_keep_the_best() -> None:
    program = kpg.connect().datalog("""
        .decl e(x: int32, y: int32, w: f32) append
        e(1, 2, 0.5). e(2, 3, 0.25). e(1, 3, 1.0). e(3, 1, 0.5).
        .decl d(x: int32, d: min<f32>) .output d
        d(1, 0.0). d(1, 3.0).
        d(y, d + w) :- d(x, d), e(x, y, w).
        .decl one(x: f32, d: max<f32>) .output one
        one(0.1, 0.2) :- e(1, 2, _), d(_, 0.0).
        .decl w(x: int32, most: max<int32>) .output w
        w(x, y) :- e(x, y, _).
        w(x, 2) :- e(x, _, _).
    """)
    assert set(program["d"]) == {(1, 0.0), (2, 0.5), (3, 0.75)}
    assert set(program["w"]) == {(1, 3), (2, 3), (3, 2)}
    assert set(program["one"]) == {(0.10000000149011612, 0.20000000298023224)}
    program.update("-e(2, 3, 0.25).")
    assert set(program["d"]) == {(1, 0.0), (2, 0.5), (3, 1.0)} and set(program["w"]) == {(1, 3), (3, 2)}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (".decl a(x: min<number>)", "min"),
        (".decl a(x: sum<int32>)", "sum"),
        (".decl a(x: number) static", "static"),
    ],
)
def test_refused(text: str, place: str) -> None:
    with pytest.raises(DatalogError, match=f'syntax error at "{place}"'):
        kpg.connect().datalog(text)


def test_negations_that_contradict_each_other_have_no_end() -> None:
    rules = ".decl a(x: int32) a(1). .input a(IO=command) .decl p(x: int32) .output p p(x) :- a(x), !p(x)."
    rules = f'.pragma "max-rounds" "50" {rules}'
    with pytest.raises(kpg.Error, match="had not come to its end after 50 rounds"):
        kpg.connect().datalog(rules)
    with pytest.raises(DatalogError, match="cyclic negation"):
        kpg.connect().datalog(rules.replace("int32", "number").replace(".input a(IO=command)", ""))


def test_aggregates_in_components() -> None:
    program = kpg.connect().datalog("""
        .comp Base { .decl e(x: int32, w: int32) .decl s(x: int32, w: int32) S(x, sum(w)) :- E(x, w). }
        .comp Twice : Base { s(x, sum(w + w)) :- e(x, w). }
        .init b = base
        .init t = Twice
        b.e(1, 5). b.e(1, 6). t.E(1, 5). t.e(1, 6).
    """)
    assert set(program["b.s"]) == {(1, 11)} and set(program["t.s"]) == {(1, 33)}


def test_aggregates_follow_changes() -> None:
    db = kpg.connect()
    program = db.datalog(EDGES + ".decl s(x: int32, n: int32) .output s s(x, sum(w)) :- e(x, _, w).")
    db.datalog("-e(1, 2, 5). +e(2, 9, 8). -e(2, 3, 7).")
    assert set(program["s"]) == {(1, 5), (2, 8)}
    db.datalog("-e(1, 3, 5).")
    assert set(program["s"]) == {(2, 8)}


@pytest.mark.parametrize(
    ("condition", "last"),
    [
        ("@it <= 0", 3),
        ("@it <= 1", 4),
        ("@it < 1", 3),
        ("@it <= 9", 5),
        ("@it == 0", 3),
        ("@it >= 0", 5),
        ("@it > 3", 2),
        ("@it >= 0 and @it < 2", 4),
        ("@it < 1 or @it == 1", 4),
        ("@it <= 60000", 5),
    ],
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


ROUNDS = """
.decl e(x: int32, y: int32) e(1, 2). e(2, 3). e(3, 4). e(4, 5). e(5, 6).
.decl s(x: int32) s(1).
.decl all(x: int32)
.decl five()
"""
BOTH = ("all(x) :- s(x). s(y) :- s(x), e(x, y). five() :- s(5).", {1, 2, 3, 4, 5, 6})
CONDITIONS = [
    ("two ways to end", "loop until { five or all }", BOTH[0], {1, 2}),
    ("ends together", "loop until { five and all }", BOTH[0], {1, 2, 3, 4, 5, 6}),
    ("either", "loop while { @it < 2 } until { five }", BOTH[0], {1, 2, 3}),
    ("the other", "loop until { all } while { @it < 2 }", BOTH[0], {1, 2}),
    ("not before both", "loop while { @it < 2 } or until { all }", BOTH[0], {1, 2, 3}),
    ("a negation", "loop while { @it < 2 }", "s(y) :- e(x, y), !s(y), x < 4. all(x) :- s(x). five() :- s(5).",
     {1, 2, 3, 4}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("loop", "rules", "expected"), [case[1:] for case in CONDITIONS], ids=[case[0] for case in CONDITIONS]
)
def test_ends_of_loops(loop: str, rules: str, expected: set[int]) -> None:
    program = kpg.connect().datalog(f"{ROUNDS} {loop} {{ {rules} }}")
    assert {row[0] for row in program.rows("s")} == expected


def test_iterative_relations_are_replaced_in_each_round() -> None:
    db = kpg.connect()
    rules = ".iterative s s(y) :- s(x), e(x, y). all(x) :- s(x). five() :- s(6)."
    program = db.datalog(f"{ROUNDS} .output s, all loop while {{ @it <= 2 }} {{ {rules} }} .output five")
    assert set(program["s"]) == {(4,)} and set(program["all"]) == {(1,), (2,), (3,)}
    program.update("+e(1, 7). -e(3, 4).")
    assert set(program["s"]) == set() and set(program["all"]) == {(1,), (2,), (3,), (7,)}
    program.update("+e(7, 1).")
    assert set(program["s"]) == {(2,), (7,)}
    settles = kpg.connect().datalog(
        f"{ROUNDS} fixpoint {{ .iterative s s(y) :- s(x), e(x, y). s(9) :- s(_). s(9) :- all(_). }}"
    )
    assert set(settles.rows("s")) == {(9,)}


@pytest.mark.parametrize("pragma", ["", '.pragma "magic-transform" "*"'])
def test_goals_and_proofs_of_loops(pragma: str) -> None:
    db = kpg.connect()
    rules = ".iterative s s(y) :- s(x), e(x, y). all(x) :- s(x). five() :- s(3)."
    program = db.datalog(
        f"{pragma} {ROUNDS} .output s loop while {{ @it <= 9 }} until {{ five }} {{ {rules} }}"
    )
    assert list(program.query("?- all(x), s(y).")) == [(1, 3), (2, 3)]
    goal = db.prepare("?- all($x).")
    assert [len(goal(x=x)) for x in (1, 2, 3)] == [1, 1, 0]
    program.update("+e(1, 9).")
    assert [len(goal(x=x)) for x in (1, 2, 3, 9)] == [1, 1, 0, 1]
    if not pragma:
        proof = str(db.explain_row("all", (2,)))
        assert "s(2)" in proof and "@" not in proof.replace("@it", "")


def test_facts_behind_a_loop_are_there_before_it() -> None:
    text = f"{ROUNDS} loop while {{ @it < 1 }} {{ s(y) :- s(x), e(x, y). }} s(4)."
    assert set(kpg.connect().datalog(text).rows("s")) == {(1,), (2,), (4,), (5,)}


def test_tuples() -> None:
    program = kpg.connect().datalog("""
        .decl t(id: int32, p: (a: int32, b: string))
        t(1, (2, "x")). t(2, (0, "y")).
        .decl names(b: string) names(y) :- t(_, p), p = (x, y), x > 1.
        .decl made(p: (a: int32, q: (c: int32, d: string))) made((i, p)) :- t(i, p), p != (0, "y").
        .decl inner(d: string) inner(d) :- made(p), p = (_, (_, d)).
        .decl one(p: (a: int32)) one((3,)).
        .output made, inner, one
    """)
    assert set(program["names"]) == {("x",)} == set(program["inner"])
    out = io.StringIO()
    write_outputs(program, "-", out)
    assert "\n(1, (2, x))\n" in out.getvalue() and "\n(3,)\n" in out.getvalue()
    program.update('+t(7, (3, "(z]")).')
    assert set(program["inner"]) == {("x",), ("(z]",)}
    with pytest.raises(DatalogError, match="a record cannot be number"):
        check(".decl t(x: int32) t(x) :- t(y), y = (x, 1).", Catalog())


def test_functions_are_predicates() -> None:
    text = """
        .extern fn is_even(x: int32) -> bool
        .decl e(x: int32) e(1). e(2). e(4).
        .decl yes(x: int32) yes(x) :- e(x), is_even(x).
        .decl no(x: int32) no(x) :- e(x), !is_even(x).
    """
    program = kpg.connect().datalog(text, functors={"is_even": lambda x: x % 2 == 0})
    assert set(program["yes"]) == {(2,), (4,)} and set(program["no"]) == {(1,)}


def test_operators_that_bind_otherwise_get_a_warning() -> None:
    rules = "s(x + y * 2) :- e(x, y, _). s(x * y + 2) :- e(x, y, _)."
    text = f"{EDGES} .decl s(x: int32) fixpoint {{ {rules} }}"
    (found,) = [one for one in check(text, Catalog()).warnings if one.code == "precedence"]
    assert found.message == "operators are read from left to right, as FlowLog did while it had loops"
    assert found.span is not None and found.span.source[found.span.start :].startswith("x + y * 2")
    plain = ".decl e(x: number, y: number) e(1, 2). .decl s(x: number) s(x + y * 2) :- e(x, y)."
    assert check(plain, Catalog()).warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loop until { e } { s(x, z) :- s(x, y), e(y, z). }", "no rule of the loop defines e"),
        ("fixpoint { .iterative e s(x, z) :- s(x, y), e(y, z). }", "no rule of the loop defines e"),
        (
            "loop while { @it < 3 } { t(x) :- s(x, _). }",
            "relation t is not declared before the loop that defines it",
        ),
        (
            "loop until { s } until { s } { s(x, z) :- s(x, y), e(y, z). }",
            "a loop with two conditions of a kind is not supported",
        ),
        (
            "loop while { @round < 3 } { s(x, z) :- s(x, y), e(y, z). }",
            "@round, other than @it, is not supported",
        ),
        (
            "loop until { s } { s(x, count(y)) :- s(x, y), e(y, z). }",
            "a loop with aggregates that has another end than 200 rounds is not supported",
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('.decl r(p: (x: number, y: symbol)) r((x, s)) :- e(x, _), s = "v".', ["(1, v)", "(2, v)"]),
        (".decl r(x: int32, y: int32) r(x, y) :- e(x, _), (x, y) = (x, x + 5).", ["1\t6", "2\t7"]),
        (".decl r(x: int32, y: int32) r(x, y) :- e(x, _), p = (x, x + 5), (_, y) = p.", ["1\t6", "2\t7"]),
        (
            ".decl r(x: int32, d: int32) r(1, 0) :- e(_, _). r(y, min(d + 1)) :- r(x, d), e(x, y).",
            ["1\t0", "2\t1", "3\t1"],
        ),
        (
            ".decl r(x: int32, d: int32) r(x, max(y)) :- e(x, y). r(y, x) :- e(x, y).",
            ["1\t3", "2\t3", "3\t2"],
        ),
    ],
)
def test_tuples_without_declarations_and_rules_beside_aggregates(
    text: str, expected: list[str], tmp_path: Path
) -> None:
    facts = "e(1, 2). e(2, 3). e(1, 3). .decl e(x: number, y: number) .output r "
    write_outputs(kpg.connect().datalog(facts + text), str(tmp_path), io.StringIO())
    assert (tmp_path / "r.csv").read_text().splitlines() == expected


def test_a_total_beside_a_plain_rule_is_refused() -> None:
    text = (
        ".decl e(x: int32, y: int32) .decl r(x: int32, d: int32) r(x, sum(y)) :- e(x, y). r(x, y) :- e(y, x)."
    )
    with pytest.raises(DatalogError, match="rules for r aggregate differently"):
        check(text, Catalog())
