"""The rules that goals become, written out; and how much they derive."""

import pytest

from kpg.compiler.rules.magic import GoalProgram, Policy, Strategy, prepare
from tests.model import graphs
from tests.model.datalog import run
from tests.model.rules import program

LEFT = "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y)."
RIGHT = "tc(x, y) :- e(x, y). tc(x, y) :- e(x, z), tc(z, y)."
SQUARED = "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), tc(z, y)."
GENERATION = "sg(x, y) :- e(p, x), e(p, y), x != y. sg(x, y) :- e(a, x), sg(a, b), e(b, y)."
PLAIN = Policy(linear=False, max_levels=None)
ACYCLIC = Policy(acyclic=frozenset({("e", (1,), (0,))}), max_levels=40)


def _prepared(text: str, goal: str, policy: Policy | None = None) -> GoalProgram:
    """For a goal as ``tc bf``."""
    name, pattern = goal.split()
    return prepare(program(text), name, tuple(one == "b" for one in pattern), policy)


def _rules(text: str, goal: str, policy: Policy | None = None) -> list[str]:
    return list(_prepared(text, goal, policy).explanation.rules)


CLOSURE = [
    "demand tc[bf](@ask0) :- seed tc[bf](@ask0).",
    "tc[bf](x, y) :- demand tc[bf](x), e(x, y).",
]


def test_closure_needs_no_demand_but_what_is_asked() -> None:
    assert _rules(LEFT, "tc bf") == [*CLOSURE, "tc[bf](x, y) :- tc[bf](x, z), e(z, y)."]
    for text in (RIGHT, SQUARED):
        carried = "tc[bf](@asked0_0, y) :- tc[bf](@asked0_0, x), e(x, y)."
        assert _rules(text, "tc bf") == [*CLOSURE, carried]
    assert _rules(LEFT, "tc fb")[-1] == "tc[fb](x, @asked0_0) :- tc[fb](y, @asked0_0), e(x, y)."


def test_magic_sets_alone() -> None:
    assert _rules(RIGHT, "tc bf", PLAIN) == [
        *CLOSURE,
        "demand tc[bf](z) :- demand tc[bf](x), e(x, z).",
        "tc[bf](x, y) :- demand tc[bf](x), e(x, z), tc[bf](z, y).",
        "answer tc[bf](c0, c1) :- seed tc[bf](c0), tc[bf](c0, c1).",
    ]


def test_right_linear_rules_give_answers_only_to_what_is_asked() -> None:
    text = "r(x, y) :- f(x, y). r(x, y) :- e(x, z), r(z, y). r(x, y) :- r(x, z), g(z, y)."
    prepared = _prepared(text, "r bf")
    assert prepared.strategy is Strategy.LINEAR
    assert prepared.answer == "r[bf]"
    assert prepared.demands == ("demand r[bf]", "context r[bf]")
    assert prepared.explanation.rules == (
        "demand r[bf](@ask0) :- seed r[bf](@ask0).",
        "context r[bf](@from0, @from0) :- demand r[bf](@from0).",
        "r[bf](@from0, y) :- context r[bf](@from0, x), f(x, y).",
        "context r[bf](@from0, z) :- context r[bf](@from0, x), e(x, z).",
        "r[bf](x, y) :- r[bf](x, z), g(z, y).",
    )


def test_a_carried_variable_that_is_read_is_not_carried() -> None:
    text = "r(x, y) :- f(x, y). r(x, y) :- e(x, z), r(z, y), x < y."
    assert _prepared(text, "r bf").strategy is Strategy.MAGIC


def test_levels() -> None:
    prepared = _prepared(GENERATION, "sg bf", ACYCLIC)
    assert prepared.strategy is Strategy.COUNTING
    name = "sg[bf] by level"
    rules = prepared.explanation.rules
    assert rules[3:7] == (
        f"levels {name}(@from0, @next, a) :- "
        f"levels {name}(@from0, @level, x), @level < 40, e(a, x), @next := (@level + 1).",
        f"found {name}(@from0, @level, y) :- "
        f"levels {name}(@from0, @level, x), e(p, x), e(p, y), x != y, !deep {name}(@from0).",
        f"found {name}(@from0, @next, y) :- "
        f"found {name}(@from0, @level, b), @level > 0, e(b, y), @next := (@level - 1).",
        f"{name}(@from0, @end0) :- found {name}(@from0, 0, @end0).",
    )
    assert f"demand sg[bf](@from0) :- deep {name}(@from0)." in rules


def test_levels_only_where_no_cycle_is_known() -> None:
    assert _prepared(GENERATION, "sg bf").strategy is Strategy.MAGIC
    assert _prepared(GENERATION, "sg fb", ACYCLIC).strategy is Strategy.COUNTING
    other = Policy(acyclic=frozenset({("e", (0,), (1,))}))
    assert _prepared(GENERATION, "sg bf", other).strategy is Strategy.MAGIC


def test_a_prefix_with_two_readers_is_kept() -> None:
    text = "p(x, y) :- f(x, y). p(x, y) :- e(x, z), g(z, w), p(w, v), h(v, y)."
    assert _rules(text, "p bf")[2:5] == [
        "part 1 of p[bf](x, w) :- demand p[bf](x), e(x, z), g(z, w).",
        "demand p[bf](w) :- part 1 of p[bf](x, w).",
        "p[bf](x, y) :- part 1 of p[bf](x, w), p[bf](w, v), h(v, y).",
    ]


def test_demand_does_not_go_through_functors_of_demand() -> None:
    text = "p(x, y) :- e(x, y). p(x, y) :- f(x, _), w = x + 1, p(w, y)."
    assert "demand p[bf](w) :- demand p[bf](x), f(x, _), w := (x + 1)." in _rules(text, "p bf", PLAIN)
    unbounded = "p(x, y) :- e(x, y). p(x, y) :- e(_, y), w = x + 1, p(w, y), u(x)."
    assert not any(":= (x + 1)" in rule and rule.startswith("demand") for rule in _rules(unbounded, "p fb"))
    endless = "p(x, y) :- e(x, y). p(x, y) :- p(w, y), w = x + 1, x < 9."
    assert _prepared(endless, "p bf").strategy is Strategy.FULL


def test_demand_is_not_made_by_what_can_fail() -> None:
    text = "p(x, y) :- e(x, y). p(x, y) :- f(x, z), w = 12 / z, p({}, y), p(z, y), g(w)."
    assert _prepared(text.format("w"), "p bf", PLAIN).strategy is Strategy.FULL
    assert "demand p[bf](z) :- demand p[bf](x), f(x, z)." in _rules(text.format("z"), "p bf", PLAIN)


def test_more_general_demand_covers() -> None:
    prepared = _prepared(SQUARED, "tc bb")
    assert ("tc[bb]", "asked by tc[bf], which is asked for too") in prepared.explanation.notes
    assert prepared.explanation.rules[0] == "demand tc[bf](@ask0) :- seed tc[bb](@ask0, @ask1)."


NEGATION = (
    "q(x) :- u(x). q(y) :- q(x), f(x, y). p(x, y) :- e(x, y). p(x, y) :- e(x, z), p(z, v), g(v, y), {}."
)


def test_negated_relations_are_asked_where_that_is_no_cycle() -> None:
    rules = _rules(NEGATION.format("!q(x)"), "p bf")
    assert "demand q[b](x) :- demand p[bf](x), e(x, z)." in rules
    assert any("!q[b](x)" in rule for rule in rules)


def test_negated_relations_that_depend_on_answers_are_whole() -> None:
    prepared = _prepared(NEGATION.format("!q(y), p(y, _)"), "p bf")
    assert ("q", "demand for it would make negation recursive") in prepared.explanation.notes
    assert any("!q(y)" in rule for rule in prepared.explanation.rules)


def test_aggregated_columns_are_not_asked_for() -> None:
    text = "d(x, min(y)) :- e(x, y). d(x, min(y)) :- e(x, z), d(z, y)."
    prepared = _prepared(text, "d bb")
    assert prepared.bound == (True, False)
    assert _prepared(text, "d fb").strategy is Strategy.FULL


def test_values_of_unfinished_minima_ask_for_nothing() -> None:
    text = """
        d(x, min(y)) :- e(x, y). d(x, min(z)) :- d(x, y), step(y, z).
        step(y, z) :- f(y, z). step(y, z) :- step(y, w), f(w, z).
    """
    prepared = _prepared(text, "d bf")
    assert ("step", "it is asked for as a whole in a rule for d") in prepared.explanation.notes


def _derived(prepared: GoalProgram, tables: dict[str, graphs.Edges], seed: tuple[int, ...]) -> int:
    """How many tuples the program derives for one goal."""
    assert prepared.seed is not None
    found = run(prepared.program, {**tables, prepared.seed: [seed]})
    return sum(len(rows) for name, rows in found.items() if name not in tables and name != prepared.seed)


@pytest.mark.parametrize("text", [LEFT, RIGHT, SQUARED])
def test_work_of_closure_is_what_is_reached(text: str) -> None:
    tree = graphs.binary_tree(8)
    prepared = _prepared(text, "tc bf")
    assert _derived(prepared, {"e": tree}, (256,)) == 1
    assert _derived(prepared, {"e": tree}, (64,)) == 6 + 1
    assert _derived(prepared, {"e": tree}, (2,)) == 254 + 1
    grid = graphs.grid(9)
    assert _derived(prepared, {"e": grid}, (44,)) == 36 - 1 + 1
    assert _derived(_prepared(RIGHT, "tc bf", PLAIN), {"e": grid}, (44,)) > 300


def test_work_of_the_same_generation_by_levels() -> None:
    grid = graphs.grid(9)
    corner = (99,)
    assert _derived(_prepared(GENERATION, "sg bf"), {"e": grid}, corner) == 752
    assert _derived(_prepared(GENERATION, "sg bf", ACYCLIC), {"e": grid}, corner) == 201
