"""Facts about nodes: each kind has all, and no two nodes that differ share an operator."""

from types import SimpleNamespace
from typing import Any, get_args

import pytest

from kpg.runtime import plan
from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.plan import AnyNode, Columns, StateKind, user
from kpg.runtime.render.fingerprint import Identities, describe
from kpg.runtime.types import BIGINT
from tests.unit.plan.examples import BASE, EXAMPLES, INSIDE, ROW, body, kinds, variants

ALL = (*EXAMPLES, *INSIDE)
NAMED = {
    (plan.Arrange, "key"): "the rows are sorted by all columns, and can be looked up by any number of them",
    (plan.Import, "types"): "a view is known by its operator",
    (user.Input, "types"): "an input is known by its operator",
}
"""Fields that do not count for the identity of an operator."""

REFUSED = (InternalError, ProgrammingError, IndexError, KeyError, AttributeError)
"""What is raised for a node that no plan can have."""


class Surroundings:
    """What identities ask of a worker: everything is as its name says."""

    def source_identity(self, table: str) -> str:
        return table

    def view_output(self, view: str) -> Any:
        return SimpleNamespace(place=SimpleNamespace(fingerprint=view, content=None))

    input = view_output


def name(node: AnyNode) -> str:
    """The identity of the operator of a node at the end of the examples' plan, or of a loop's body."""
    nodes = (*BASE, body(node) if isinstance(node, plan.Enter | plan.Variable | user.EnterAt) else node)
    return Identities(Columns(nodes), Surroundings()).names[-1]


def test_there_is_an_example_of_every_kind() -> None:
    assert kinds() == {*get_args(plan.Node), *get_args(user.Node), plan.Exchange}
    assert {type(node) for node in ALL} == kinds() and len(ALL) == len(kinds())


@pytest.mark.parametrize("node", ALL, ids=lambda node: type(node).__name__)
def test_every_kind_has_facts(node: AnyNode) -> None:
    assert set(plan.streams(node)) <= set(plan.inputs(node))
    assert isinstance(plan.state_kind(node), StateKind) and isinstance(plan.holds_rows(node), bool)
    assert describe(node, BASE, None)
    there = plan.renumber_inputs(node, lambda ref: ref + 100)
    assert plan.inputs(there) == tuple(ref + 100 for ref in plan.inputs(node))
    assert plan.renumber_inputs(there, lambda ref: ref - 100) == node
    assert plan.parameters(there) == plan.parameters(node)


@pytest.mark.parametrize("node", ALL, ids=lambda node: type(node).__name__)
def test_nodes_that_differ_in_any_field_have_other_inputs_or_parameters(node: AnyNode) -> None:
    for field, other in variants(node):
        if not (isinstance(node, plan.Loop) and field == "body") and not isinstance(node, plan.Enter):
            told = (plan.inputs(other), plan.parameters(other))
            assert told != (plan.inputs(node), plan.parameters(node)), field


@pytest.mark.parametrize("node", ALL, ids=lambda node: type(node).__name__)
def test_nodes_that_differ_in_any_field_have_operators_of_their_own(node: AnyNode) -> None:
    known = name(node)
    for field, other in variants(node):
        try:
            found = name(other)
        except REFUSED:
            continue
        assert (found == known) == ((type(node), field) in NAMED), (field, other)


def test_most_variants_are_nodes_that_a_plan_can_have() -> None:
    """Lest the test above pass because all it tries fails."""
    tried = {type(node): set[str]() for node in ALL}
    for node in ALL:
        for field, other in variants(node):
            try:
                name(other)
            except REFUSED:
                continue
            tried[type(node)].add(field)
    fields = {kind: set(kind.__dataclass_fields__) for kind in tried}
    assert {kind: fields[kind] - found for kind, found in tried.items() if fields[kind] != found} == {}


def test_kinds_of_nodes_over_the_same_input_are_told_apart() -> None:
    over_one = [node for node in EXAMPLES if plan.inputs(node) == (0,) and not isinstance(node, plan.Concat)]
    assert len({name(node) for node in over_one}) == len(over_one) >= 10


def test_an_aggregate_is_shared_whatever_users_call_it() -> None:
    first, second = (
        plan.Reduce(0, 1, (plan.Aggregate("sum", 1, BIGINT, text),)) for text in ("sum(a)", "sum(b)")
    )
    assert first == second and name(first) == name(second)


def test_what_keeps_what() -> None:
    found = {
        kept: {type(node).__name__ for node in ALL if plan.state_kind(node) is kept} for kept in StateKind
    }
    assert found[StateKind.TRACE] == {"Arrange"}
    assert found[StateKind.GROUPS] == {"Reduce", "Distinct", "Threshold", "Single"}
    assert found[StateKind.OUTPUT] == {"UserReduce"}
    assert found[StateKind.OWN] == {"Fold", "Custom", "Sink", "Input"}


def test_columns_of_a_loop() -> None:
    columns = Columns((*BASE, plan.Leave(4, 1)))
    assert columns.types[4] == () and columns.types[-1] == ROW
    assert columns.bodies[4].types == [ROW] * 5
