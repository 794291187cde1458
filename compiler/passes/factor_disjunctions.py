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
    """Rewrite ``(a and b) or (a and c)`` to ``a and (b or c)``, and derive filters for single join inputs.

    ``(x = 1 and y = 2) or (x = 3 and y = 4)`` over inputs x and y implies ``x in (1, 3)``. The weaker
    predicate can be checked before the join (TPC-H Q7, Q19).
    """

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.Filter):
            return replace(node, predicates=conjuncts(_factor(node.predicates)))
        if isinstance(node, algebra.Join):
            factored = conjuncts(_factor(node.on))
            return replace(node, on=conjuncts((*factored, *_implications(node.inputs, factored))))
        return node

    return transform_up(rel, rewrite)


def _factor(predicates: Iterable[Scalar]) -> Iterator[Scalar]:
    for predicate in conjuncts(predicates):
        if isinstance(predicate, Call) and predicate.function == "or":
            yield from _factor_branches(predicate.args)
        else:
            yield predicate


def _factor_branches(branches: Sequence[Scalar]) -> Iterator[Scalar]:
    parts = [conjuncts([branch]) for branch in branches]
    common = [p for p in parts[0] if all(p in other for other in parts[1:])]
    yield from common
    rests = [[p for p in part if p not in common] for part in parts]
    if all(rests):
        yield _disjunction(_conjunction(rest) for rest in rests)


def _conjunction(predicates: Sequence[Scalar]) -> Scalar:
    return predicates[0] if len(predicates) == 1 else Call("and", tuple(predicates), BOOLEAN)


def _disjunction(branches: Iterable[Scalar]) -> Scalar:
    args = tuple(dict.fromkeys(branches))
    return args[0] if len(args) == 1 else Call("or", args, BOOLEAN)


def _implications(inputs: Sequence[Rel], predicates: Sequence[Scalar]) -> Iterator[Scalar]:
    """Yield what each disjunction over several inputs implies for a single input.

    Every branch must restrict that input. Conjuncts that can fail for rows that another input rejects
    are left out.
    """
    for predicate in predicates:
        if not (isinstance(predicate, Call) and predicate.function == "or"):
            continue
        start = 0
        for source in inputs:
            own_columns = set(range(start, start + width(source)))
            start += width(source)
            if columns(predicate) <= own_columns:
                continue
            parts = [
                [p for p in conjuncts([branch]) if columns(p) and columns(p) <= own_columns and is_total(p)]
                for branch in predicate.args
            ]
            if all(parts):
                yield _disjunction(_conjunction(part) for part in parts)
