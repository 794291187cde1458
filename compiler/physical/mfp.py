"""Composing map-filter-project: how the operators above a relation become one step over its rows."""

from collections.abc import Iterable, Sequence

from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Literal, Scalar, transform, walk
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


def same_words(left: Type, right: Type) -> bool:
    """Whether equal values of the two types are equal words."""
    if left.is_text and right.is_text:
        return True
    if left.is_integer and right.is_integer:
        return True
    return left.kind is right.kind and left.scale == right.scale


def written_size(mfp: Mfp, values: Sequence[Scalar]) -> int:
    """How many scalar nodes ``mfp`` has once ``values`` are substituted for its columns."""
    sizes = [sum(1 for _ in walk(value)) for value in values]
    return sum(
        sizes[node.index] if isinstance(node, Column) else 1
        for scalar in (*mfp.predicates, *mfp.outputs)
        for node in walk(scalar)
    )
