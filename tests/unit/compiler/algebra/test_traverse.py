"""Traversals: order, sharing of what does not change, and depth."""

from kpg.compiler.algebra.rel import (
    AggregateCall,
    Constant,
    Distinct,
    Filter,
    Get,
    Join,
    Let,
    LetRec,
    LocalGet,
    Map,
    Negate,
    OrderBy,
    Project,
    Reduce,
    Rel,
    Single,
    Threshold,
    TopK,
    Union,
)
from kpg.compiler.algebra.traverse import (
    children,
    free_locals,
    scalars,
    transform_down,
    transform_up,
    walk,
    walk_up,
    with_children,
    with_scalars,
)
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER

T = Get("t", (INTEGER, INTEGER), (True, True))
U = Get("u", (INTEGER, INTEGER), (True, True))
A, B = Column(0, INTEGER), Column(1, INTEGER)
TEST = Call("eq", (A, B), BOOLEAN)
LOCAL = LocalGet("x", (INTEGER, INTEGER))
EVERY: tuple[Rel, ...] = (
    T,
    Constant(((1,),), (INTEGER,)),
    LOCAL,
    Map(T, (A,)),
    Filter(T, (TEST,)),
    Project(T, (1,)),
    Join((T, U), (TEST,)),
    Reduce(T, (A,), (AggregateCall("sum", (B,), False, BIGINT),)),
    TopK(T, (0,), (OrderBy(1, False, False),), 3),
    Distinct(T),
    Threshold(T),
    Negate(T),
    Union((T, U)),
    Single(T, (0,)),
    Let("x", T, LOCAL),
    LetRec(("x",), (U,), ((INTEGER, INTEGER),), None, LOCAL),
)


def test_with_children_and_scalars_undo_children_and_scalars() -> None:
    for rel in EVERY:
        assert with_children(rel, children(rel)) == rel
        assert with_scalars(rel, scalars(rel)) == rel


def test_with_children_replaces_in_order() -> None:
    assert with_children(Union((T, U)), (U, T)) == Union((U, T))
    assert with_children(Let("x", T, LOCAL), (U, T)) == Let("x", U, T)
    assert children(LetRec(("x",), (U,), ((INTEGER,),), None, LOCAL)) == (U, LOCAL)


def test_walks_visit_parents_first_and_inputs_first() -> None:
    rel = Union((Distinct(T), U))
    assert list(walk(rel)) == [rel, Distinct(T), T, U]
    assert list(walk_up(rel)) == [T, Distinct(T), U, rel]


def test_transform_up_keeps_what_does_not_change() -> None:
    rel = Union((Distinct(T), Negate(U)))
    assert transform_up(rel, lambda node: node) is rel
    changed = transform_up(rel, lambda node: T if node == U else node)
    assert changed == Union((Distinct(T), Negate(T)))
    assert children(changed)[0] is children(rel)[0]


def test_transform_down_rewrites_what_it_made() -> None:
    def peel(node: Rel) -> Rel:
        return node.input if isinstance(node, Distinct) else node

    assert transform_down(Union((Distinct(Negate(Distinct(T))), U)), peel) == Union((Negate(T), U))


def test_deep_plans_do_not_exhaust_the_stack() -> None:
    rel: Rel = T
    for _ in range(5000):
        rel = Negate(rel)
    assert sum(1 for _ in walk(rel)) == 5001
    assert transform_up(rel, lambda node: node) is rel
    assert free_locals(rel) == frozenset()


def test_free_locals_stop_at_their_binder() -> None:
    y = LocalGet("y", (INTEGER, INTEGER))
    assert free_locals(Let("x", y, Union((LOCAL, T)))) == {"y"}
    assert free_locals(Let("x", LOCAL, T)) == {"x"}
    assert free_locals(LetRec(("x",), (Union((LOCAL, y)),), ((INTEGER,),), None, LOCAL)) == {"y"}
