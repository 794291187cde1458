"""What tells whether an expression fails, without its value, which is dear to compute.

A mean of DECIMALs is a NUMERIC, made by Python and kept as a string. Where nobody reads it before the result
is asked for, it is enough to know at each step that it can be made: ``a / b`` fails where b is 0 and a is
not NULL.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Kind, Type

Guard = tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
"""Predicates, and what is computed of rows that satisfy them to see whether it can be."""
SAFE: Final = frozenset(
    ["eq", "le", "lt", "distinct", "text_compare", "text_word", "is_null", "not", "and", "or"]
)
"""Instructions that never fail."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """What is known of the value of an expression: it fails where one of the ``checks`` does, only there.

    ``word``, if it is known, is an expression that never fails where these do not, NULL where the value is,
    and, if ``zero``, 0 exactly where that is. ``few``: a number of so few digits that no arithmetic fails for
    their number. ``plain``: the machine computes the value itself.
    """

    checks: tuple[Scalar, ...] = ()
    word: Scalar | None = None
    zero: bool = False
    few: bool = False
    plain: bool = False


ONE: Final = Literal(1, BIGINT)
ZERO: Final = Literal(0, BIGINT)
NOTHING: Final = Literal(None, BIGINT)


def shadow_of(scalar: Scalar) -> Shadow | None:
    """The shadow of an expression; None if only its value tells whether it fails."""
    match scalar:
        case Column(type=type_) | Fetch(type=type_):
            return Shadow((), scalar, zero=type_.is_exact, few=_is_few(type_), plain=True)
        case Literal():
            return _of_literal(scalar)
        case If():
            return _of_choice(scalar)
        case Call():
            return _of_call(scalar)
        case _:
            assert_never(scalar)


def guard_of(predicates: Sequence[Scalar], outputs: Sequence[Scalar]) -> Guard | None:
    """What fails in the rows in which a map and filter does, and makes nothing that is dear.

    None if there is no such; without outputs if nothing ever fails.
    """
    tests, made = list(map(shadow_of, predicates)), list(map(shadow_of, outputs))
    if None in tests or None in made:
        return None
    tested = [check for shadow in tests if shadow is not None for check in shadow.checks]
    checks = [check for shadow in made if shadow is not None for check in shadow.checks]
    if not checks and not tested:
        return (), ()
    if not all(shadow is not None and shadow.plain for shadow in tests):
        return None
    return tuple(predicates), tuple(dict.fromkeys(checks))


def is_dear(scalar: Scalar) -> bool:
    """Whether a value is made by Python, of other than one interned one."""
    from kpg.runtime.functions.registry import Columns, Composition, Memoized, Vector, implementation

    match scalar:
        case Column() | Fetch() | Literal():
            return False
        case If(condition=condition, then=then, otherwise=otherwise):
            return any(map(is_dear, (condition, then, otherwise)))
        case Call(args=args):
            how = implementation(scalar)
            if isinstance(how, Composition):
                return is_dear(how.build(scalar))
            if isinstance(how, Columns | Vector):
                return True
            rest = [arg for arg in args if not isinstance(arg, Literal)]
            one = len(rest) == 1 and rest[0].type.is_interned and isinstance(how, Memoized)
            if isinstance(how, Memoized) and rest and (how.takes_nulls or not one):
                return True
            return any(map(is_dear, args))
        case _:
            assert_never(scalar)


def strict(call: Call, args: Sequence[Shadow]) -> Shadow:
    """Of a function that never fails, and is NULL where an argument is."""
    return Shadow(_checks(args), _null_with(args, ONE))


def never(call: Call, args: Sequence[Shadow]) -> Shadow:
    """Of a function that never fails."""
    return Shadow(_checks(args))


def arithmetic(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Of a function of numbers that fails for their size at most."""
    if not all(arg.few for arg in args):
        return None
    return Shadow(_checks(args), _null_with(args, ONE), few=True)


def number(call: Call, args: Sequence[Shadow]) -> Shadow:
    """Of a function that never fails and gives a number of few digits, or NULL nobody knows where."""
    return Shadow(_checks(args), few=True)


def same(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Of a function that gives a number of as many digits, and 0 of 0 only."""
    (arg,) = args
    return Shadow(arg.checks, arg.word, zero=arg.zero, few=arg.few) if arg.few else None


def product(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Of a product."""
    if not all(arg.few for arg in args):
        return None
    left, right = args
    if left.word is None or right.word is None or not (left.zero and right.zero):
        return arithmetic(call, args)
    is_zero = Call("or", (_is_zero(left.word), _is_zero(right.word)), BOOLEAN)
    word = _null_with(args, If(is_zero, ZERO, ONE, BIGINT))
    return Shadow(_checks(args), word, zero=True, few=True)


def quotient(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Of a quotient, which fails where the divisor is 0."""
    left, right = args
    if not (left.few and right.few and right.zero) or left.word is None or right.word is None:
        return None
    word = _null_with(args, If(_is_zero(left.word), ZERO, ONE, BIGINT))
    checks = _checks(args)
    divisor = right.word
    if not (isinstance(divisor, Literal) and divisor.value):
        share = _null_with(args, Call("$div", (ONE, If(_is_zero(right.word), ZERO, ONE, BIGINT)), BIGINT))
        assert share is not None
        checks += (share,)
    return Shadow(checks, word, zero=left.zero, few=True)


def mean(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Of a mean, by total and number; NULL of no rows."""
    total, count = args
    if total.word is None or count.word is None:
        return None
    word = _null_with((count,), If(_is_zero(count.word), NOTHING, total.word, BIGINT))
    return Shadow(_checks(args), word, zero=total.zero, few=True)


def _checks(args: Sequence[Shadow]) -> tuple[Scalar, ...]:
    return tuple(dict.fromkeys(check for arg in args for check in arg.checks))


def _is_zero(word: Scalar) -> Scalar:
    return Call("eq", (word, Literal(0, word.type)), BOOLEAN)


def _null_with(args: Sequence[Shadow], otherwise: Scalar) -> Scalar | None:
    """NULL where an argument is NULL; None if that is not known of one."""
    result = otherwise
    for arg in args:
        if arg.word is None:
            return None
        if not isinstance(arg.word, Literal) or arg.word.value is None:
            result = If(Call("is_null", (arg.word,), BOOLEAN), NOTHING, result, BIGINT)
    return result


def _is_few(type_: Type) -> bool:
    return type_.is_exact


def _of_literal(literal: Literal) -> Shadow:
    """A constant; of a NUMERIC it is known whether it is 0."""
    if literal.type.kind is Kind.NUMERIC and isinstance(literal.value, str):
        from kpg.runtime.values import numeric

        value = numeric.decode(literal.value)
        word = ONE if value else ZERO
        return Shadow((), word, zero=True, few=value.is_finite() and abs(value.adjusted()) < 1000, plain=True)
    word = NOTHING if literal.value is None else literal
    return Shadow((), word, zero=literal.type.is_exact, few=_is_few(literal.type), plain=True)


def _of_choice(choice: If) -> Shadow | None:
    condition, then, otherwise = (
        shadow_of(part) for part in (choice.condition, choice.then, choice.otherwise)
    )
    if condition is None or then is None or otherwise is None or not condition.plain:
        return None
    test = choice.condition
    checks = [
        *condition.checks,
        *(If(test, check, Literal(None, check.type), check.type) for check in then.checks),
        *(If(test, Literal(None, check.type), check, check.type) for check in otherwise.checks),
    ]
    word = None
    if then.word is not None and otherwise.word is not None:
        word = If(test, then.word, otherwise.word, BIGINT)
    return Shadow(
        tuple(checks),
        word,
        zero=then.zero and otherwise.zero,
        few=then.few and otherwise.few,
        plain=then.plain and otherwise.plain,
    )


def _of_call(call: Call) -> Shadow | None:
    from kpg.runtime.functions.registry import (
        Columns,
        Composition,
        Matcher,
        Membership,
        Memoized,
        Opcode,
        Vector,
        implementation,
    )

    how = implementation(call)
    if isinstance(how, Composition):
        return shadow_of(how.build(call))
    found = [shadow_of(arg) for arg in call.args]
    args = [arg for arg in found if arg is not None]
    if len(args) < len(found):
        return None
    plain = all(arg.plain for arg in args)
    match how:
        case Opcode(name=name) if name in SAFE:
            return Shadow(_checks(args), call if plain else None, plain=plain)
        case Opcode() | Membership() | Matcher():
            return _of_instruction(call, safe=not isinstance(how, Opcode)) if plain else None
        case Memoized(shadow=None):
            return _of_instruction(call, safe=False) if plain and not is_dear(call) else None
        case Memoized(shadow=shadow):
            assert shadow is not None
            return shadow(call, args)
        case Columns() | Vector():
            return None
        case _:
            assert_never(how)


def _of_instruction(call: Call, *, safe: bool) -> Shadow:
    """Of what the machine computes itself; unless it is ``safe`` only its value tells whether it fails."""
    type_ = call.type
    return Shadow(() if safe else (call,), call, zero=type_.is_exact, few=_is_few(type_), plain=True)
