"""Programs restricted to what their outputs need derive the same outputs, and less else."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kpg.compiler.rules import core
from kpg.compiler.rules.core import rule_text
from kpg.compiler.rules.magic.program_rewriting import restrict_program
from kpg.compiler.rules.strata import strata
from tests.model import graphs
from tests.model.datalog import run
from tests.model.rules import program
from tests.properties.programs import WRITTEN, random_program

NODES = 7
CLOSURE = "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y). "
EVERYTHING = {"magic-transform": "*"}
READERS = (
    "out(x, y) :- u(x), {0}(x, y).",
    "out(x, y) :- {0}(1, x), {1}(x, y).",
    "out(x, y) :- u(x), u(y), !{0}(x, y). out(x, y) :- u(y), {1}(x, y).",
    "out(x, c) :- u(x), c = count : {{ {0}(x, _) }}. last(x, y) :- out(x, _), {1}(y, x).",
)


def _restricted(
    text: str, outputs: list[str], pragmas: Mapping[str, str] = EVERYTHING
) -> core.Program | None:
    return restrict_program(replace(program(text), pragmas=pragmas), outputs)


def _rules(made: core.Program | None) -> list[str]:
    assert made is not None
    return [rule_text(one, made.relations[one.head.relation]) for one in made.rules]


def _tables(seed: int) -> dict[str, frozenset[tuple[int, ...]]]:
    choice = random.Random(seed)
    nodes = frozenset((choice.randrange(NODES),) for _ in range(choice.randrange(4)))
    return {
        "e": graphs.any_graph(NODES, 5 + seed % 6, seed),
        "f": graphs.any_graph(NODES, 4 + seed % 3, seed + 1),
        "u": nodes,
    }


def test_an_output_asks_for_what_it_reads() -> None:
    rules = _rules(_restricted(CLOSURE + "q(y) :- tc(1, y).", ["q"]))
    assert "q(y) :- tc[bf](1, y)." in rules
    assert not any(one.startswith("tc(") for one in rules)


def test_outputs_ask_together() -> None:
    made = _restricted(CLOSURE + "q(y) :- tc(1, y). p(y) :- tc(y, 2), u(y).", ["q", "p"])
    assert made is not None
    assert {"tc[bf]"} == {name for name in made.relations if name.startswith("tc")}


@pytest.mark.parametrize(
    "pragmas",
    [
        {},
        {"magic-transform": "other"},
        {"magic-transform": "*", "magic-transform-exclude": "tc"},
    ],
)
def test_nothing_is_restricted_unless_the_program_asks_for_it(pragmas: dict[str, str]) -> None:
    assert _restricted(CLOSURE + "q(y) :- tc(1, y). other(y) :- e(y, y).", ["q"], pragmas) is None


def test_what_is_an_output_is_whole() -> None:
    assert _restricted(CLOSURE + "q(y) :- tc(1, y).", ["q", "tc"]) is None


def test_what_is_asked_for_as_a_whole_is_whole() -> None:
    assert _restricted(CLOSURE + "q(y) :- tc(x, y).", ["q"]) is None


def test_a_relation_is_chosen_by_its_qualifier() -> None:
    made = program(CLOSURE + "q(y) :- tc(1, y).")
    closure = replace(made.relations["tc"], magic=True)
    chosen = replace(made, relations={**made.relations, "tc": closure})
    assert restrict_program(chosen, ["q"]) is not None
    assert restrict_program(made, ["q"]) is None


def test_relations_computed_by_rounds_keep_their_rules() -> None:
    made = program(CLOSURE + "q(x, y) :- tc(1, y), u(x). p(y) :- q(y, _), tc(3, y).")
    choice = replace(made.relations["q"], selection=core.Choice(((0,),)))
    made = replace(made, relations={**made.relations, "q": choice}, pragmas=EVERYTHING)
    assert restrict_program(made, ["p"]) is None


def test_demand_makes_no_negation_recursive() -> None:
    text = CLOSURE + "a(y) :- tc(1, y). b(y) :- e(y, _), !a(y). c(y) :- b(x), tc(x, y)."
    made = _restricted(text, ["c"])
    for stratum in () if made is None else strata(made.relations, made.rules):
        inside = [use for rule in stratum.rules for atom, use in core.atoms(rule.body) if use]
        assert not (stratum.is_recursive and inside)


def _check(text: str, seed: int) -> int:
    """How many of some programs could be restricted; they all have the same outputs."""
    choice = random.Random(seed)
    two = [
        name
        for name, one in program(text).relations.items()
        if one.kind is core.Kind.DERIVED and len(one.columns) == 2
    ]
    if not two:
        return 0
    whole = program(text + choice.choice(READERS).format(choice.choice(two), choice.choice(two)))
    names = [name for name, one in whole.relations.items() if one.kind is core.Kind.DERIVED]
    done = 0
    for _ in range(3):
        outputs = ["out"] if choice.random() < 0.6 else choice.sample(names, min(len(names), 2))
        listed = choice.choice(["*", ",".join(choice.sample(names, (len(names) + 1) // 2))])
        made = restrict_program(replace(whole, pragmas={"magic-transform": listed}), outputs)
        if made is not None:
            tables = _tables(seed + done)
            expected, found = run(whole, tables), run(made, tables)
            assert {name: found[name] for name in outputs} == {name: expected[name] for name in outputs}
            done += 1
    return done


@pytest.mark.parametrize("name", WRITTEN)
def test_outputs_of_written_programs(name: str) -> None:
    _check(WRITTEN[name], list(WRITTEN).index(name))


def test_outputs_of_random_programs() -> None:
    assert sum(_check(random_program(seed), seed) for seed in range(30)) > 20
