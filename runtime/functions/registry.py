"""The registry of scalar functions: name, types, NULL rule, meaning, examples, implementation.

The binder calls :func:`resolve` to find what a call means; the runtime calls :func:`implementation` to find
how it is computed. Nothing here imports compiled code: an :class:`Opcode` is a name.

A :class:`Shadow` tells whether an expression fails without computing its value. Some values are expensive: a
mean of DECIMALs is a NUMERIC, made by Python and kept as a string. Until a result is read, a step only needs
to know whether the value exists: ``a / b`` fails where b is 0 and a is not NULL.
"""

import difflib
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, assert_never

import numpy as np

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import autoload
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Named, Scalar, spelling
from kpg.runtime.types import BIGINT, BOOLEAN, Kind, Type
from kpg.runtime.unsupported_features import unsupported_call
from kpg.runtime.values import numeric

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


Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Signature:
    """The types that the arguments must be cast to, and the type of the result."""

    args: tuple[Type, ...]
    result: Type


Rule = Callable[[tuple[Type, ...]], Signature | None]
"""Argument types to a signature, or None where the overload does not apply."""


class NullRule(enum.Enum):
    """What a NULL argument does."""

    PROPAGATE = "NULL if an argument is NULL"
    OWN = "as described"


@dataclass(frozen=True, slots=True)
class Opcode:
    """One instruction of the expression machine, with an immediate operand computed from the call.

    The first ``operands`` arguments are registers (None: all). ``fold`` marks an operation of two
    operands that stands for any number of them, ``in_order`` one that is applied from left to right.
    """

    name: str
    immediate: Callable[[Call], int] | None = None
    operands: int | None = None
    fold: bool = False
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Composition:
    """An expression over other functions; what it builds may have any type of the same words."""

    build: Callable[[Call], Scalar]


@dataclass(frozen=True, slots=True)
class Memoized:
    """A Python function, run once for each distinct combination of non-NULL arguments.

    ``build`` gives the function for a call; it takes and returns ``bool``, ``int`` (also for dates,
    intervals and unscaled decimals), ``float`` or ``str``, None for NULL, and raises ValueError or
    ArithmeticError for an error.
    """

    build: Callable[[Call], Callable[..., object]]
    takes_nulls: bool = False
    """Whether it is run for NULLs too, which otherwise make NULL."""
    spelled: Callable[[Call], Callable[..., str | None] | None] | None = None
    """As ``build``, for a function that gives the string that stands for its value, if that is quicker."""
    units: Callable[[Call], Callable[..., Any] | None] | None = None
    """As ``build``, over numbers as units of the last of so many digits behind the point, which is quicker.

    It takes and gives ``(units, digits)``, or gives a word if that is the result's type; None for NULL.
    """
    shadow: Callable[[Call, Sequence[Shadow]], Shadow | None] | None = None
    """What is known of a call's value before it is computed, by what is known of the arguments."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A user's function of columns: numpy arrays of the values of rows without NULLs, all of one length."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Vector:
    """A numpy function on columns of words of equal length; it deals with NULL and ERROR itself."""

    build: Callable[[Call], Callable[..., Words]]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern of bytes and wildcards for the compiled matcher, run once for each distinct string."""

    pattern: Callable[[Call], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Membership:
    """Whether the first argument is among literals."""


Implementation = Opcode | Composition | Memoized | Columns | Vector | Matcher | Membership


@dataclass(frozen=True, slots=True)
class Overload:
    """An implementation and the argument types it is for."""

    rule: Rule
    implementation: Implementation


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function. ``examples``: SQL expressions with the SQL literal they equal.

    ``accepts`` shows the argument types to the user.
    """

    name: str
    accepts: str
    doc: str
    examples: Mapping[str, str] = field(hash=False)
    overloads: tuple[Overload, ...]
    nulls: NullRule = NullRule.PROPAGATE
    also: tuple[str, ...] = ()
    """What else it takes, of types whose modules have been imported; errors do not say it."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a call means: the function, the types to cast the arguments to, the type of the result."""

    function: ScalarFunction
    arg_types: tuple[Type, ...]
    result_type: Type


_FUNCTIONS: dict[str, ScalarFunction] = {}
_PRIMITIVES: dict[str, Implementation] = {}


def scalar(
    name: str,
    accepts: str,
    doc: str,
    examples: Mapping[str, str],
    *overloads: Overload,
    nulls: NullRule = NullRule.PROPAGATE,
) -> ScalarFunction:
    """Registers a function; overloads are tried in order."""
    assert name not in _FUNCTIONS, name
    function = ScalarFunction(name, accepts, doc, examples, overloads, nulls)
    _FUNCTIONS[name] = function
    return function


def extend(name: str, accepts: str, *overloads: Overload) -> None:
    """More overloads of a function, for types of a module that is imported when one of them is first met."""
    function = lookup(name)
    also = tuple(sorted({*function.also, accepts}))
    _FUNCTIONS[name] = replace(function, also=also, overloads=(*overloads, *function.overloads))


def memoized(
    name: str, accepts: str, rule: Rule, examples: Mapping[str, str]
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Registers a plain Python function, run once for each distinct combination of arguments."""

    def register(function: Callable[..., object]) -> Callable[..., object]:
        doc = (function.__doc__ or "").strip()
        scalar(name, accepts, doc, examples, Overload(rule, Memoized(lambda call: function)))
        return function

    return register


def primitive(name: str, implementation: Implementation) -> None:
    """Registers a building block of compositions that no text can name."""
    assert name.startswith("$") and name not in _PRIMITIVES, name
    _PRIMITIVES[name] = implementation


def implementation(call: Call) -> Implementation:
    """How a call whose arguments are typed as :func:`resolve` demands is computed."""
    if call.function in _PRIMITIVES or (call.function[0] == "$" and autoload.bring_primitive(call.function)):
        return _PRIMITIVES[call.function]
    if call.function[0] == "$" and call.function not in _FUNCTIONS:
        autoload.bring_every_module()
        if call.function in _PRIMITIVES:
            return _PRIMITIVES[call.function]
    types = tuple(arg.type for arg in call.args)
    autoload.bring_types(types)
    function = lookup(call.function)
    for overload in function.overloads:
        if overload.rule(types) is not None:
            return overload.implementation
    raise _no_overload(function, types)


def may_give_null(function: Callable[..., object]) -> bool:
    """Whether a Python function may return None, by what its annotation says; without one it may."""
    hint = getattr(function, "__annotations__", {}).get("return", None)
    return not (isinstance(hint, type) and hint not in (type(None), object, Any))


def functions() -> Iterator[ScalarFunction]:
    """Every registered function, by name."""
    autoload.bring_all()
    return iter(sorted(_FUNCTIONS.values(), key=lambda function: function.name))


def function_names() -> frozenset[str]:
    """The names of all scalar functions, those included that are not defined yet."""
    return autoload.scalar_names().union(_FUNCTIONS)


def is_function(name: str) -> bool:
    """Whether a name is that of a scalar function."""
    return name in _FUNCTIONS or name in autoload.scalar_names()


def lookup(name: str) -> ScalarFunction:
    """The function of a canonical name; ProgrammingError with the nearest names if there is none.

    NotSupportedError if it is a function of Postgres that kpg refuses by name.
    """
    if isinstance(name, Named):
        return name.definition
    function = _FUNCTIONS.get(name)
    if function is None and autoload.bring_scalar(name):
        function = _FUNCTIONS[name]
    if function is None:
        if (refusal := unsupported_call(name)) is not None:
            raise refusal
        near = difflib.get_close_matches(name, sorted(function_names()), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        raise ProgrammingError(f"unknown function {name}", hint=hint)
    return function


def resolve(name: str, arg_types: tuple[Type, ...]) -> Resolution:
    """The meaning of a call by name and argument types.

    UNKNOWN stands for a NULL literal, or a text literal whose type its neighbours decide.
    """
    autoload.bring_types(arg_types)
    try:
        function = lookup(name)
    except ProgrammingError as error:
        error.short = f"{name} does not take ({', '.join(map(str, arg_types))})"
        error.sqlstate = "42883"
        raise
    for overload in function.overloads:
        signature = overload.rule(arg_types)
        if signature is not None:
            return Resolution(function, signature.args, signature.result)
    raise _no_overload(function, arg_types)


def _no_overload(function: ScalarFunction, types: tuple[Type, ...]) -> ProgrammingError:
    shown = ", ".join("NULL" if type_.kind is Kind.NULL else str(type_) for type_ in types)
    message = f"{spelling(function.name)} does not take ({shown})"
    made = ProgrammingError(message, hint=f"it takes {function.accepts}; cast the arguments")
    made.sqlstate = "42883"
    return made
