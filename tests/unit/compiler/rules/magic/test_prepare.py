"""How a goal's strategy is chosen."""

from dataclasses import replace

import pytest

from kpg.compiler.rules import core
from kpg.compiler.rules.magic import Policy, Strategy, counting_steps, prepare
from kpg.runtime.errors import NotSupportedError
from tests.model.datalog import run
from tests.model.rules import program

TEXT = "tc(x, y) :- e(x, y). tc(x, y) :- e(x, z), tc(z, y). far(x, y) :- tc(x, y), !e(x, y)."
CHECKED = program(TEXT)
EDGES = [(1, 2), (2, 3), (5, 6)]


def _with(relation: str, **changed: object) -> core.Program:
    relations = dict(CHECKED.relations)
    relations[relation] = replace(relations[relation], **changed)  # type: ignore[arg-type]
    return replace(CHECKED, relations=relations)


def test_what_is_stored_is_looked_up() -> None:
    prepared = prepare(CHECKED, "e", (True, False))
    assert prepared.strategy is Strategy.LOOKUP
    assert run(prepared.program, {"e": EDGES, "seed e[bf]": [(2,)]})[prepared.answer] == {(2, 3)}
    assert (
        prepare(CHECKED, "tc", (True, False), Policy(materialized=frozenset({"tc"}))).strategy
        is Strategy.LOOKUP
    )


def test_what_is_kept_is_not_computed_again() -> None:
    prepared = prepare(CHECKED, "far", (True, False), Policy(materialized=frozenset({"tc"})))
    assert prepared.strategy is Strategy.MAGIC
    assert ("tc", "it is there already") in prepared.explanation.notes
    assert "far[bf](x, y) :- demand far[bf](x), tc(x, y), !e(x, y)." in prepared.explanation.rules


def test_goals_without_values_ask_for_all() -> None:
    prepared = prepare(CHECKED, "tc", (False, False))
    assert prepared.strategy is Strategy.FULL and prepared.seed is None
    assert run(prepared.program, {"e": EDGES})[prepared.answer] == {(1, 2), (1, 3), (2, 3), (5, 6)}


def test_small_programs_are_computed_as_a_whole() -> None:
    policy = Policy(rows={"e": 3}, min_rows=10)
    prepared = prepare(CHECKED, "tc", (True, False), policy)
    assert prepared.explanation.text().splitlines()[0] == (
        "computed as a whole and looked up: there are only 3 rows in what it is computed from"
    )
    assert prepare(CHECKED, "tc", (True, False), replace(policy, rows={})).strategy is Strategy.MAGIC


@pytest.mark.parametrize("pragma", ["tc", "*", "other, tc"])
def test_programs_can_refuse_magic(pragma: str) -> None:
    refused = replace(CHECKED, pragmas={"magic-transform-exclude": pragma})
    assert prepare(refused, "tc", (True, False)).strategy is Strategy.FULL
    assert prepare(_with("tc", magic=False), "tc", (True, False)).strategy is Strategy.FULL


def test_rules_with_a_plan_are_left_alone() -> None:
    planned = replace(CHECKED, rules=(CHECKED.rules[0], replace(CHECKED.rules[1], plan=((0, (1, 0)),))))
    prepared = prepare(planned, "tc", (True, False))
    assert prepared.explanation.reason == "its rules have a .plan"


def test_relations_that_need_values() -> None:
    text = (
        ".demand goal 0. goal(k, x) :- tc(1, x), x > k. tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y)."
    )
    checked = program(text)
    prepared = prepare(checked, "goal", (True, False), Policy(rows={"e": 0}, min_rows=10))
    assert prepared.strategy is Strategy.MAGIC
    rows = {"e": [(1, 2), (2, 3), (3, 4)], "seed goal[bf]": [(2,), (3,)]}
    assert run(prepared.program, rows)[prepared.answer] == {(2, 3), (2, 4), (3, 4)}
    with pytest.raises(NotSupportedError, match="goal can be asked only with values for c0"):
        prepare(checked, "goal", (False, True))


def test_what_must_have_no_cycle_for_levels() -> None:
    text = """
        sg(x, y) :- f(x, y). sg(x, y) :- e(a, _, x), sg(a, b), e(b, _, y).
        on(x, y) :- f(x, y). on(x, y) :- sg(x, a), on(a, b), f(b, y).
    """
    checked = program(text)
    assert counting_steps(checked, "sg", (True, False)) == ("e", (2,), (0,))
    assert counting_steps(checked, "sg", (True, True)) is None
    assert counting_steps(checked, "on", (True, False)) is None
    assert counting_steps(checked, "on", (False, True)) == ("f", (1,), (0,))
    assert counting_steps(checked, "e", (True, False, False)) is None


def test_counting_does_not_depend_on_the_names_of_variables() -> None:
    recursive = "p(x, y) :- up(x, a), p(a, b), down(b, y). q(x, y) :- f(x, z), f(z, y)."
    found = []
    for name in "xu":
        checked = program(f"{recursive} p({name}, w) :- v = {name} + 1, q(v, w).")
        rules = prepare(checked, "p", (True, False), Policy(count_always=True)).explanation.rules
        found += [rule.replace("u", "x") for rule in rules if rule.startswith("found") and "q(" in rule]
    assert len(found) == 2 and found[0] == found[1]
