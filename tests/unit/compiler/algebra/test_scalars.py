"""Scalars in terms of other scalars, and their hashes."""

import pickle

import pytest

from kpg.compiler.algebra.scalars import conjuncts, size_after_substitution, substitute
from kpg.compiler.physical.context import express_children_over, express_over
from kpg.runtime.errors import InternalError
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN

A, B, C = (Column(index, BIGINT) for index in range(3))
ONE = Literal(1, BIGINT)
TRUE = Literal(1, BOOLEAN)


def add(left: Scalar, right: Scalar) -> Call:
    return Call("add", (left, right), BIGINT)


def both(*args: Scalar) -> Call:
    return Call("and", args, BOOLEAN)


def test_substitute() -> None:
    assert substitute(add(A, add(B, A)), [B, ONE]) == add(B, add(ONE, B))
    assert substitute(ONE, []) is ONE


def test_conjuncts_are_flat_and_without_repetition_or_truths() -> None:
    p, q = Call("eq", (A, ONE), BOOLEAN), Call("lt", (A, B), BOOLEAN)
    assert conjuncts([both(p, both(TRUE, q)), p]) == (p, q)


def test_written_size() -> None:
    assert size_after_substitution([add(A, B), A], [add(B, add(B, ONE)), ONE]) == 1 + 5 + 1 + 5


def test_over_takes_the_largest_parts_that_a_row_has() -> None:
    places: dict[Scalar, int] = {add(A, B): 3, A: 1}
    assert express_over(add(add(A, B), A), places.get) == add(Column(3, BIGINT), Column(1, BIGINT))
    assert express_over(add(A, B), places.get) == Column(3, BIGINT)
    places[B] = 2
    assert express_children_over(add(A, B), places.get) == add(Column(1, BIGINT), Column(2, BIGINT))


def test_over_refuses_a_column_that_a_row_has_not() -> None:
    with pytest.raises(InternalError, match="column 2 is not at hand"):
        express_over(add(A, C), lambda scalar: 0 if scalar == A else None)


def test_a_kept_hash_does_not_travel() -> None:
    """Hashes of text differ between processes, so a pickle must leave them behind."""
    scalar = add(A, ONE)
    assert hash(scalar) == hash(add(A, ONE))
    copy = pickle.loads(pickle.dumps(scalar))
    assert hasattr(scalar, "_hash") and not hasattr(copy, "_hash")
    assert copy == scalar and hash(copy) == hash(scalar)
