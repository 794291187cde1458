"""Recursive relations as loops: what is in the body, what stays outside, and the answers (plan model)."""

from collections import Counter

import pytest

from kpg.compiler.algebra.rel import (
    Constant,
    Distinct,
    Filter,
    Join,
    LetRec,
    LocalGet,
    Project,
    Rel,
    Single,
    Union,
)
from kpg.compiler.physical import plan_query
from kpg.compiler.physical.cardinality import NoStatistics
from kpg.runtime import plan
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import BIGINT, BOOLEAN
from tests.model.plan import rows_of_plan

PAIR = (BIGINT, BIGINT)
EDGES = Constant(((1, 2), (2, 3), (3, 2), (5, 6)), PAIR)


def equal(left: int, right: int) -> Call:
    return Call("eq", (Column(left, BIGINT), Column(right, BIGINT)), BOOLEAN)


def step(closure: Rel, edges: Rel) -> Rel:
    return Project(Join((closure, edges), (equal(1, 2),)), (0, 3))


def closure(edges: Rel, *, id_: str = "tc", limit: int | None = None) -> LetRec:
    tc = LocalGet(id_, PAIR)
    return LetRec((id_,), (Distinct(Union((edges, step(tc, edges)))),), (PAIR,), limit, tc)


def loop_of(query: plan.Plan) -> plan.Loop:
    (loop,) = (node for node in query.nodes if isinstance(node, plan.Loop))
    return loop


def test_a_closure() -> None:
    query = plan_query(closure(EDGES), NoStatistics())
    expected = {(1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (5, 6)}
    assert rows_of_plan(query, {}) == Counter(expected)


def test_what_does_not_depend_on_the_recursion_is_outside() -> None:
    query = plan_query(closure(Filter(EDGES, (equal(0, 0),))), NoStatistics())
    loop = loop_of(query)
    kinds = Counter(type(node) for node in loop.body)
    assert kinds[plan.Arrange] == 1  # of the closure; that of the edges is entered
    assert kinds[plan.Constant] == kinds[plan.Source] == 0
    entered = [query.nodes[ref] for ref in plan.inputs(loop)]
    assert sum(isinstance(node, plan.Arrange) for node in entered) == 1


def test_a_recursion_within_a_recursion_that_does_not_depend_on_it_is_outside() -> None:
    inner = closure(EDGES, id_="inner")
    query = plan_query(closure(inner), NoStatistics())
    loops = [node for node in query.nodes if isinstance(node, plan.Loop)]
    assert len(loops) == 2
    assert not any(isinstance(node, plan.Loop) for loop in loops for node in loop.body)
    assert rows_of_plan(query, {}) == rows_of_plan(plan_query(closure(EDGES), NoStatistics()), {})


def test_one_that_depends_on_it_is_a_loop_in_the_body() -> None:
    """The outer relation grows by the closure of itself and the edges."""
    outer = LocalGet("outer", PAIR)
    inner = closure(Distinct(Union((outer, EDGES))), id_="inner")
    query = plan_query(LetRec(("outer",), (inner,), (PAIR,), None, outer), NoStatistics())
    assert any(isinstance(node, plan.Loop) for node in loop_of(query).body)
    assert rows_of_plan(query, {}) == rows_of_plan(plan_query(closure(EDGES), NoStatistics()), {})


def test_mutual_recursion_is_one_loop() -> None:
    odd, even = LocalGet("odd", PAIR), LocalGet("even", PAIR)
    values = (Distinct(Union((EDGES, step(even, EDGES)))), Distinct(step(odd, EDGES)))
    query = plan_query(LetRec(("odd", "even"), values, (PAIR, PAIR), None, even), NoStatistics())
    assert len(loop_of(query).results) == 2
    assert rows_of_plan(query, {}) == Counter([(1, 3), (2, 2), (3, 3)])


def test_a_limit_is_the_loops() -> None:
    loop = loop_of(plan_query(closure(EDGES, limit=1), NoStatistics()))
    assert (loop.limit, loop.error_at_limit) == (1, False)
    assert rows_of_plan(plan_query(closure(EDGES, limit=1), NoStatistics()), {}) == Counter(EDGES.rows)


def test_a_scalar_subquery_over_the_recursion_is_refused() -> None:
    tc = LocalGet("tc", PAIR)
    rec = LetRec(("tc",), (Distinct(Union((EDGES, Single(tc, ())))),), (PAIR,), None, tc)
    with pytest.raises(NotSupportedError, match="recursive relation"):
        plan_query(rec, NoStatistics())


def predicates_of(loop: plan.Loop) -> list[object]:
    return [test for node in loop.body if isinstance(node, plan.Linear) for test in node.mfp.predicates]


def test_what_is_never_null_in_any_round_is_not_tested() -> None:
    assert not predicates_of(loop_of(plan_query(closure(EDGES), NoStatistics())))
    odd, even = LocalGet("odd", PAIR), LocalGet("even", PAIR)
    values = (Distinct(Union((EDGES, step(even, EDGES)))), Distinct(step(odd, EDGES)))
    mutual = plan_query(LetRec(("odd", "even"), values, (PAIR, PAIR), None, even), NoStatistics())
    assert not predicates_of(loop_of(mutual))


def test_what_may_become_null_in_some_round_is_tested() -> None:
    edges = Constant(((1, 2), (2, None), (None, 3)), PAIR)
    query = plan_query(closure(edges), NoStatistics())
    (test,) = predicates_of(loop_of(query))
    assert test == Call("is_not_null", (Column(1, BIGINT),), BOOLEAN)
    assert rows_of_plan(query, {}) == Counter({(1, 2): 1, (2, None): 1, (None, 3): 1, (1, None): 1})


def joined(loop: plan.Loop) -> list[type]:
    """The kinds of nodes that the relations of the only join are."""
    (join,) = (node for node in loop.body if isinstance(node, plan.DeltaJoin))
    return [type(loop.body[path.delta.input]) for path in plan.paths_of(loop.body, join)]


def test_a_join_takes_an_arrangement_whose_order_brings_equal_derivations_together() -> None:
    """Cousins: pairs (a, b) with the same a make the same pairs again and again, whatever b."""
    same = LocalGet("sg", PAIR)
    cousins = Project(Join((EDGES, same, EDGES), (equal(0, 2), equal(3, 4))), (1, 5))
    loop = loop_of(
        plan_query(LetRec(("sg",), (Distinct(Union((EDGES, cousins))),), (PAIR,), None, same), NoStatistics())
    )
    assert joined(loop) == [plan.Enter, plan.Arrange, plan.Enter]


def test_a_join_takes_the_variable_where_an_order_would_not_help() -> None:
    """Of a closure by its last node, no two rows make the same row."""
    loop = loop_of(plan_query(closure(EDGES), NoStatistics()))
    assert joined(loop)[0] is plan.Variable
