"""Composing map-filter-project: how the operators above a relation become one step over its rows."""

from collections.abc import Iterable, Sequence

from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Literal, Scalar, transform
from kpg.runtime.types import Type


def substitute(scalar: Scalar, values: Sequence[Scalar]) -> Scalar:
    """The scalar with column ``i`` replaced by ``values[i]``."""

    def rewrite(node: Scalar) -> Scalar:
        return values[node.index] if isinstance(node, Column) else node

    return transform(scalar, rewrite)


def compose(mfp: Mfp, values: Sequence[Scalar]) -> Mfp:
    """``mfp`` over rows whose column ``i`` is ``values[i]`` of the rows below."""
    return Mfp(
        tuple(substitute(predicate, values) for predicate in mfp.predicates),
        tuple(substitute(output, values) for output in mfp.outputs),
    )


def conjuncts(predicates: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The predicates with every AND taken apart and literal truths left out, in order, each once."""
    result: dict[Scalar, None] = {}
    stack = list(reversed(tuple(predicates)))
    while stack:
        predicate = stack.pop()
        match predicate:
            case Call(function="and", args=args):
                stack.extend(reversed(args))
            case Literal(value=1):
                pass
            case _:
                result.setdefault(predicate)
    return tuple(result)


def identity(types: Sequence[Type]) -> Mfp:
    """All rows as they are."""
    return Mfp((), tuple(Column(index, type_) for index, type_ in enumerate(types)))


def is_identity(mfp: Mfp, width: int) -> bool:
    """Whether the mfp gives every row of ``width`` columns as it is."""
    places = tuple(output.index if isinstance(output, Column) else -1 for output in mfp.outputs)
    return not mfp.predicates and places == tuple(range(width))
