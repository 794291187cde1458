"""What the catalogs say of a number, by the number: a choice among what there is now."""

from collections.abc import Iterable, Sequence

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.scope import Binding
from kpg.runtime.scalar import If, Literal, Scalar
from kpg.runtime.types import BIGINT, TEXT


def choice(binding: Binding, node: exp.Expr, number: Scalar, known: Iterable[tuple[int, str]]) -> Scalar:
    """The text of a number, NULL if it has none."""
    found = list(known)
    if isinstance(number, Literal):
        return Literal(dict(found).get(int(number.value)) if number.value is not None else None, TEXT)
    return searched(binding, node, number, sorted(found))


def searched(binding: Binding, node: exp.Expr, number: Scalar, known: Sequence[tuple[int, str]]) -> Scalar:
    """As nested CASEs by halves, since what walks a scalar is recursive."""
    if not known:
        return Literal(None, TEXT)
    middle = len(known) // 2
    key = Literal(known[middle][0], BIGINT)
    below, above = known[:middle], known[middle + 1 :]
    result: Scalar = Literal(None, TEXT)
    if below or above:
        less = call(binding, "lt", [number, key], node)
        result = If(
            less, searched(binding, node, number, below), searched(binding, node, number, above), TEXT
        )
    return If(call(binding, "eq", [number, key], node), Literal(known[middle][1], TEXT), result, TEXT)
