"""Factor common conjuncts out of a disjunction, and derive a filter for each input of a join."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import conjuncts, is_total
from kpg.compiler.algebra.traverse import transform_up, width
from kpg.runtime.scalar import Call, Scalar, columns
from kpg.runtime.types import BOOLEAN


def factor_disjunctions(rel: Rel) -> Rel:
    """``(a and b) or (a and c)`` becomes ``a`` and ``b or c``; joins get what is implied for one input.

    ``(x = 1 and y = 2) or (x = 3 and y = 4)`` over inputs x and y implies ``x in (1, 3)``: the weaker
    predicate can be checked before the join (TPC-H Q7, Q19).
    """

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.Filter):
            return replace(node, predicates=conjuncts(_factored(node.predicates)))
        if isinstance(node, algebra.Join):
            factored = conjuncts(_factored(node.on))
            return replace(node, on=conjuncts((*factored, *_implied(node.inputs, factored))))
        return node

    return transform_up(rel, rewrite)


def _factored(predicates: Iterable[Scalar]) -> Iterator[Scalar]:
    for predicate in conjuncts(predicates):
        if isinstance(predicate, Call) and predicate.function == "or":
            yield from _common(predicate.args)
        else:
            yield predicate


def _common(branches: Sequence[Scalar]) -> Iterator[Scalar]:
    parts = [conjuncts([branch]) for branch in branches]
    common = [p for p in parts[0] if all(p in other for other in parts[1:])]
    yield from common
    rests = [[p for p in part if p not in common] for part in parts]
    if all(rests):
        yield _any(_all(rest) for rest in rests)


def _all(predicates: Sequence[Scalar]) -> Scalar:
    return predicates[0] if len(predicates) == 1 else Call("and", tuple(predicates), BOOLEAN)


def _any(branches: Iterable[Scalar]) -> Scalar:
    args = tuple(dict.fromkeys(branches))
    return args[0] if len(args) == 1 else Call("or", args, BOOLEAN)


def _implied(inputs: Sequence[Rel], predicates: Sequence[Scalar]) -> Iterator[Scalar]:
    """For each disjunction over several inputs, its consequence for each one that all branches restrict.

    What may fail in rows that another input rejects is left out.
    """
    for predicate in predicates:
        if not (isinstance(predicate, Call) and predicate.function == "or"):
            continue
        start = 0
        for source in inputs:
            own = set(range(start, start + width(source)))
            start += width(source)
            if columns(predicate) <= own:
                continue
            parts = [
                [p for p in conjuncts([branch]) if columns(p) and columns(p) <= own and is_total(p)]
                for branch in predicate.args
            ]
            if all(parts):
                yield _any(_all(part) for part in parts)
