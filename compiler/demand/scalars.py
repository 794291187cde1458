"""Scalars in rules: those that the rule language has are written in it, all others go by a number.

A numbered scalar is a call of a function that nobody else knows. To magic sets it is a function that may
fail, which they do not evaluate where the query would not.
"""

from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.algebra.traverse import scalars, transform_up, with_scalars
from kpg.compiler.rules import core
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, remap, sql_text, transform
from kpg.runtime.types import BOOLEAN

NUMBERED: Final = "$scalar"
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
NOWHERE: Final = Span("", 0, 0)
TRUE: Final = core.Constant(1, BOOLEAN)


@dataclass(slots=True)
class Numbered:
    """The scalars that have numbers, over the arguments of their calls."""

    known: dict[Scalar, int] = field(default_factory=dict)

    def expression(self, scalar: Scalar, terms: dict[int, core.HeadTerm]) -> core.Expression:
        """A scalar over variables, which are called ``terms``, as an expression."""
        match scalar:
            case Column(index=index):
                return terms[index]
            case Literal(value=value, type=type_) if value is not None:
                return core.Constant(value, type_)
            case Fetch() | Literal() | If() | Call():
                read = sorted(columns(scalar))
                template = remap(scalar, read.index)
                number = self.known.setdefault(template, len(self.known))
                return core.Call(f"{NUMBERED}{number}", tuple(terms[one] for one in read), scalar.type)
            case _:
                assert_never(scalar)

    def test(self, predicate: Scalar, terms: dict[int, core.HeadTerm]) -> core.Comparison:
        """A predicate as a comparison."""
        if isinstance(predicate, Call) and predicate.function in COMPARISONS and _is_plain(predicate.args):
            left, right = (self.expression(arg, terms) for arg in predicate.args)
            return core.Comparison(predicate.function, left, right, NOWHERE)
        return core.Comparison("eq", self.expression(predicate, terms), TRUE, NOWHERE)

    def lines(self) -> tuple[str, ...]:
        """What the numbers mean, a line each."""
        return tuple(f"{NUMBERED}{number}(#0, ...) is {sql_text(one)}" for one, number in self.known.items())

    def resolved(self, rel: Rel) -> Rel:
        """A relation with the numbered scalars in the place of their calls."""
        templates = {f"{NUMBERED}{number}": template for template, number in self.known.items()}

        def inner(scalar: Scalar) -> Scalar:
            if isinstance(scalar, Call) and scalar.function in templates:
                return substitute(templates[scalar.function], scalar.args)
            return scalar

        def outer(scalar: Scalar) -> Scalar:
            match scalar:
                case Call(function="eq", args=(Call(function=name) as test, Literal())) if name in templates:
                    return test
                case Column() | Fetch() | Literal() | If() | Call():
                    return scalar
                case _:
                    assert_never(scalar)

        def rewritten(node: Rel) -> Rel:
            own = scalars(node)
            new = tuple(transform(outer(one), inner) for one in own)
            return node if new == own else with_scalars(node, new)

        return transform_up(rel, rewritten)


def _is_plain(args: tuple[Scalar, ...]) -> bool:
    """Whether the two are different columns or values, and of one type."""
    plain = all(
        isinstance(one, Column) or (isinstance(one, Literal) and one.value is not None) for one in args
    )
    return plain and args[0] != args[1] and args[0].type == args[1].type
