"""Plans as data: whatever a plan can consist of comes back equal, and what cannot be data is refused."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest

from kpg.runtime import plan
from kpg.runtime.errors import OperationalError
from kpg.runtime.functions.named import Named
from kpg.runtime.plan import Constant, Linear, Mfp, Plan, user
from kpg.runtime.saved.form import UnsavedError
from kpg.runtime.saved.plans import CLASSES, plan_state, read_plan
from kpg.runtime.scalar import Call, Column, If, Literal
from kpg.runtime.types import BIGINT, BOOLEAN, Kind, Type
from tests.properties import loops
from tests.properties.dataflows import DATAFLOWS
from tests.unit.plan.examples import BASE, EXAMPLES, INSIDE, body

PLANS = {
    **{name: whole for name, (whole, _) in DATAFLOWS.items()},
    **{name: make() for name, make in loops.LOOPS.items()},
}


def plain(state: Any) -> bool:
    if isinstance(state, tuple):
        return all(map(plain, state))
    return state is None or type(state) in (int, str)


@pytest.mark.parametrize("name", PLANS)
def test_plans_come_back(name: str) -> None:
    state = plan_state(PLANS[name])
    assert plain(state)
    assert read_plan(state) == PLANS[name]


@pytest.mark.parametrize("node", [*EXAMPLES, *INSIDE], ids=lambda node: type(node).__name__)
def test_every_node_comes_back_or_is_refused(node: plan.AnyNode) -> None:
    if isinstance(node, get_args(user.Node)):
        with pytest.raises(UnsavedError):
            plan_state(node)
    else:
        assert read_plan(plan_state(node)) == node


def every(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, tuple):
        for one in value:
            yield from every(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from every(getattr(value, field.name))


def test_fields_that_do_not_count_for_equality_come_back() -> None:
    """They are in errors."""
    call = Call("cast", (Column(0, BIGINT),), BOOLEAN, stored="column b of table t")
    aggregate = plan.Aggregate("sum", 1, BIGINT, "sum(b)")
    expansion = plan.Expand(0, 1, (EXAMPLES[19].calls[0].__class__("f", (0,), (BIGINT,), (BIGINT,), "f(b)"),))  # type: ignore[union-attr]
    assert read_plan(plan_state(call)).stored == "column b of table t"
    assert read_plan(plan_state(aggregate)).description == "sum(b)"
    assert read_plan(plan_state(expansion)).calls[0].text == "f(b)"


def test_examples_have_every_class_of_the_registry() -> None:
    types = Type(Kind.ENUM, labels=("a", "b"), name="e"), Type(Kind.ARRAY, parts=(BIGINT,))
    scalar = If(Literal(1, BOOLEAN), Literal("x", types[0]), Literal(None, types[1]), BIGINT)
    whole = Plan((*BASE, Linear(0, Mfp((scalar,), ())), body(), *EXAMPLES[:19]), 0)
    met = {type(one).__name__ for one in every((whole, *PLANS.values(), EXAMPLES[19], INSIDE))}
    assert set(CLASSES) - met == {"Schema", "ColumnDef", "Direction"}
    assert read_plan(plan_state(whole)) == whole


def test_equal_parts_are_written_once() -> None:
    parts, _ = plan_state(Plan((Constant((), (BIGINT, BIGINT)), Constant((), (BIGINT, BIGINT))), 1))
    assert [name for name, *_ in parts] == ["Type", "Constant", "Plan"]


def test_a_users_function_is_found_by_its_name() -> None:
    mine: Named[Any] = Named("mine", 3)
    state = plan_state(Call(mine, (), BIGINT))
    assert read_plan(state, {"mine#3": mine}.__getitem__).function is mine
    with pytest.raises(OperationalError, match="function mine is not registered"):
        read_plan(state)


def test_what_is_not_of_the_registry_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        read_plan(((("Own", 1),), ("@", 0)))
