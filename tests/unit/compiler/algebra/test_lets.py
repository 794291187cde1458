"""Names of lets: unique afterwards, and each use still means what it meant."""

from kpg.compiler.algebra.rel import Constant, Let, LetRec, LocalGet, Rel, Union
from kpg.compiler.algebra.traverse import let_values, renumber_lets, with_unique_ids
from kpg.runtime.types import BIGINT

TYPES = (BIGINT,)


def one(value: int) -> Constant:
    return Constant(((value,),), TYPES)


def get(id_: str) -> LocalGet:
    return LocalGet(id_, TYPES)


def let(id_: str, value: Rel, body: Rel) -> Let:
    return Let(id_, value, body)


def test_a_shadowing_let_gets_a_name_of_its_own() -> None:
    rel = let("x", one(1), Union((get("x"), let("x", get("x"), get("x")))))
    assert renumber_lets(rel) == let("l0", one(1), Union((get("l0"), let("l1", get("l0"), get("l1")))))


def test_lets_side_by_side_get_names_of_their_own() -> None:
    rel = Union((let("x", one(1), get("x")), let("x", one(2), get("x"))))
    unique = with_unique_ids(rel)
    assert unique == Union((let("l0", one(1), get("l0")), let("l1", one(2), get("l1"))))
    assert let_values(unique) == {"l0": one(1), "l1": one(2)}


def test_unique_names_stay() -> None:
    rel = let("a", one(1), let("b", get("a"), Union((get("a"), get("b")))))
    assert with_unique_ids(rel) is rel


def test_recursive_names_are_names_too() -> None:
    loop = LetRec(("l1",), (Union((get("l1"), get("x"))),), (TYPES,), None, get("l1"))
    assert renumber_lets(let("x", one(1), loop)) == let(
        "l0", one(1), LetRec(("l1",), (Union((get("l1"), get("l0"))),), (TYPES,), None, get("l1"))
    )
    clash = LetRec(("l0",), (Union((get("l0"), get("x"))),), (TYPES,), None, get("l0"))
    assert renumber_lets(let("x", one(1), clash)) == renumber_lets(let("x", one(1), loop))


def test_what_is_free_keeps_its_name() -> None:
    assert renumber_lets(let("x", get("y"), get("x"))) == let("l0", get("y"), get("l0"))
