"""The paths of a join: which chains of nodes are one, and what its operator reads."""

import pytest

from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode
from tests.unit.plan.examples import BASE, WHOLE

PATHS = (*BASE, plan.DeltaJoin((11, 12)))


def test_the_paths_of_a_join() -> None:
    there, back = plan.paths_of(PATHS, PATHS[-1])
    assert (there.refs, there.delta.input, [half.relation for half in there.half_joins]) == ((6, 11), 0, [1])
    assert (back.refs, back.delta.input, [half.relation for half in back.half_joins]) == ((7, 12), 1, [0])
    assert plan.sources(PATHS, PATHS[-1]) == (0, 1, 10, 9)
    assert plan.sources(PATHS, PATHS[9]) == plan.inputs(PATHS[9]) == (0,)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (plan.HalfJoin(0, 9, 1, 0, (0,), WHOLE), "Constant is on a path of a join"),
        (plan.HalfJoin(7, 9, 0, 1, (0,), WHOLE), "path 1 of a join does not meet each other relation"),
        (plan.HalfJoin(12, 9, 1, 0, (0,), WHOLE), "path 1 of a join does not meet each other relation"),
    ],
)
def test_paths_that_are_none(end: AnyNode, message: str) -> None:
    wrong = (*BASE, end)
    with pytest.raises(InternalError, match=message):
        plan.paths_of(wrong, plan.DeltaJoin((11, len(BASE))))
