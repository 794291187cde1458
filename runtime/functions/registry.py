"""The registry of scalar functions: name, types, NULL rule, meaning, examples, implementation.

The binder calls :func:`resolve` to resolve a call. The runtime calls :func:`implementation` to find
its implementation. This module imports no compiled code: an :class:`Opcode` is a name.

A :class:`Shadow` tells where an expression fails without computing its value. Some values are
expensive: a mean of DECIMALs is a NUMERIC, which Python computes and the dictionary stores. Until a
result is read, a step only needs to know whether the value exists: ``a / b`` fails where b is 0 and a
is not NULL.
"""

import difflib
import enum
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, assert_never

import numpy as np

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import autoload
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, UserFunctionName, function_text
from kpg.runtime.types import BIGINT, BOOLEAN, Kind, Type
from kpg.runtime.unsupported_features import unsupported_call_error
from kpg.runtime.values import numeric

if TYPE_CHECKING:
    from kpg.runtime import extensions
else:
    extensions = LazyModule("kpg.runtime.extensions")

Guard = tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
"""Predicates, and outputs that fail in the same rows as an expensive map and filter."""
INFALLIBLE_OPCODES: Final = frozenset(
    ["eq", "le", "lt", "distinct", "text_compare", "text_word", "is_null", "not", "and", "or"]
)
"""Instructions that never fail."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """Abstract value of an expression: where it fails, is NULL and is 0.

    The expression fails exactly where one of ``checks`` fails. ``word``, if not None, never fails where the
    checks succeed. It is NULL where the value is, and with ``keeps_zero`` it is 0 exactly where the value
    is. ``has_few_digits``: no arithmetic fails because of the number of digits. ``is_native``: the
    expression machine computes the value.
    """

    checks: tuple[Scalar, ...] = ()
    word: Scalar | None = None
    keeps_zero: bool = False
    has_few_digits: bool = False
    is_native: bool = False


ONE: Final = Literal(1, BIGINT)
ZERO: Final = Literal(0, BIGINT)
NULL_BIGINT: Final = Literal(None, BIGINT)


def shadow_of(scalar: Scalar) -> Shadow | None:
    """Return the shadow of an expression, or None if only its value tells whether it fails."""
    match scalar:
        case Column(type=type_) | Fetch(type=type_):
            return Shadow(
                (), scalar, keeps_zero=type_.is_exact, has_few_digits=_has_few_digits(type_), is_native=True
            )
        case Literal():
            return _literal_shadow(scalar)
        case If():
            return _conditional_shadow(scalar)
        case Call():
            return _call_shadow(scalar)
        case _:
            assert_never(scalar)


def guard_of(predicates: Sequence[Scalar], outputs: Sequence[Scalar]) -> Guard | None:
    """Return expressions without expensive values that fail in the same rows as a map and filter.

    Returns:
        None if there are no such expressions. A guard without outputs if nothing can fail.
    """
    predicate_shadows, output_shadows = list(map(shadow_of, predicates)), list(map(shadow_of, outputs))
    if None in predicate_shadows or None in output_shadows:
        return None
    predicate_checks = [
        check for shadow in predicate_shadows if shadow is not None for check in shadow.checks
    ]
    checks = [check for shadow in output_shadows if shadow is not None for check in shadow.checks]
    if not checks and not predicate_checks:
        return (), ()
    if not all(shadow is not None and shadow.is_native for shadow in predicate_shadows):
        return None
    return tuple(predicates), tuple(dict.fromkeys(checks))


def is_expensive(scalar: Scalar) -> bool:
    """Check whether Python computes a value, other than from a single interned argument."""

    match scalar:
        case Column() | Fetch() | Literal():
            return False
        case If(condition=condition, then=then, otherwise=otherwise):
            return any(map(is_expensive, (condition, then, otherwise)))
        case Call(args=args):
            method = implementation(scalar)
            if isinstance(method, Composition):
                return is_expensive(method.build(scalar))
            if isinstance(method, ColumnFunction | VectorFunction):
                return True
            rest = [arg for arg in args if not isinstance(arg, Literal)]
            is_unary = len(rest) == 1 and rest[0].type.is_interned and isinstance(method, MemoizedFunction)
            if isinstance(method, MemoizedFunction) and rest and (method.takes_nulls or not is_unary):
                return True
            return any(map(is_expensive, args))
        case _:
            assert_never(scalar)


def strict_shadow(call: Call, args: Sequence[Shadow]) -> Shadow:
    """Return the shadow of a function that never fails, and is NULL where an argument is NULL."""
    return Shadow(_checks(args), _propagate_null(args, ONE))


def arithmetic_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Return the shadow of a numeric function that can only fail because of the number of digits."""
    if not all(arg.has_few_digits for arg in args):
        return None
    return Shadow(_checks(args), _propagate_null(args, ONE), has_few_digits=True)


def number_shadow(call: Call, args: Sequence[Shadow]) -> Shadow:
    """Return the shadow of a function that never fails and returns a number of few digits or NULL."""
    return Shadow(_checks(args), has_few_digits=True)


def sign_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Return the shadow of a function that keeps the number of digits, and returns 0 only for 0."""
    (arg,) = args
    return (
        Shadow(arg.checks, arg.word, keeps_zero=arg.keeps_zero, has_few_digits=arg.has_few_digits)
        if arg.has_few_digits
        else None
    )


def product_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Return the shadow of a product."""
    if not all(arg.has_few_digits for arg in args):
        return None
    left, right = args
    if left.word is None or right.word is None or not (left.keeps_zero and right.keeps_zero):
        return arithmetic_shadow(call, args)
    is_zero = Call("or", (_is_zero(left.word), _is_zero(right.word)), BOOLEAN)
    word = _propagate_null(args, If(is_zero, ZERO, ONE, BIGINT))
    return Shadow(_checks(args), word, keeps_zero=True, has_few_digits=True)


def quotient_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Return the shadow of a quotient, which fails where the divisor is 0."""
    left, right = args
    if (
        not (left.has_few_digits and right.has_few_digits and right.keeps_zero)
        or left.word is None
        or right.word is None
    ):
        return None
    word = _propagate_null(args, If(_is_zero(left.word), ZERO, ONE, BIGINT))
    checks = _checks(args)
    divisor = right.word
    if not (isinstance(divisor, Literal) and divisor.value):
        share = _propagate_null(
            args, Call("$div", (ONE, If(_is_zero(right.word), ZERO, ONE, BIGINT)), BIGINT)
        )
        assert share is not None
        checks += (share,)
    return Shadow(checks, word, keeps_zero=left.keeps_zero, has_few_digits=True)


def mean_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Return the shadow of a mean of a total and a count. The mean of no rows is NULL."""
    total, count = args
    if total.word is None or count.word is None:
        return None
    word = _propagate_null((count,), If(_is_zero(count.word), NULL_BIGINT, total.word, BIGINT))
    return Shadow(_checks(args), word, keeps_zero=total.keeps_zero, has_few_digits=True)


def _checks(args: Sequence[Shadow]) -> tuple[Scalar, ...]:
    return tuple(dict.fromkeys(check for arg in args for check in arg.checks))


def _is_zero(word: Scalar) -> Scalar:
    return Call("eq", (word, Literal(0, word.type)), BOOLEAN)


def _propagate_null(args: Sequence[Shadow], otherwise: Scalar) -> Scalar | None:
    """Return ``otherwise`` with NULL where an argument is NULL, or None if an argument has no word."""
    result = otherwise
    for arg in args:
        if arg.word is None:
            return None
        if not isinstance(arg.word, Literal) or arg.word.value is None:
            result = If(Call("is_null", (arg.word,), BOOLEAN), NULL_BIGINT, result, BIGINT)
    return result


def _has_few_digits(type_: Type) -> bool:
    return type_.is_exact


def _literal_shadow(literal: Literal) -> Shadow:
    """Return the shadow of a constant. For a NUMERIC it is known whether it is 0."""
    if literal.type.kind is Kind.NUMERIC and isinstance(literal.value, str):
        value = numeric.decode(literal.value)
        word = ONE if value else ZERO
        return Shadow(
            (),
            word,
            keeps_zero=True,
            has_few_digits=value.is_finite() and abs(value.adjusted()) < 1000,
            is_native=True,
        )
    word = NULL_BIGINT if literal.value is None else literal
    return Shadow(
        (),
        word,
        keeps_zero=literal.type.is_exact,
        has_few_digits=_has_few_digits(literal.type),
        is_native=True,
    )


def _conditional_shadow(conditional: If) -> Shadow | None:
    condition, then, otherwise = (
        shadow_of(part) for part in (conditional.condition, conditional.then, conditional.otherwise)
    )
    if condition is None or then is None or otherwise is None or not condition.is_native:
        return None
    test = conditional.condition
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
        keeps_zero=then.keeps_zero and otherwise.keeps_zero,
        has_few_digits=then.has_few_digits and otherwise.has_few_digits,
        is_native=then.is_native and otherwise.is_native,
    )


def _call_shadow(call: Call) -> Shadow | None:

    method = implementation(call)
    if isinstance(method, Composition):
        return shadow_of(method.build(call))
    shadows = [shadow_of(arg) for arg in call.args]
    args = [arg for arg in shadows if arg is not None]
    if len(args) < len(shadows):
        return None
    plain = all(arg.is_native for arg in args)
    match method:
        case Opcode(name=name) if name in INFALLIBLE_OPCODES:
            return Shadow(_checks(args), call if plain else None, is_native=plain)
        case Opcode() | Membership() | Matcher():
            return _instruction_shadow(call, is_infallible=not isinstance(method, Opcode)) if plain else None
        case MemoizedFunction(shadow=None):
            return (
                _instruction_shadow(call, is_infallible=False) if plain and not is_expensive(call) else None
            )
        case MemoizedFunction(shadow=shadow):
            assert shadow is not None
            return shadow(call, args)
        case ColumnFunction() | VectorFunction():
            return None
        case _:
            assert_never(method)


def _instruction_shadow(call: Call, *, is_infallible: bool) -> Shadow:
    """Return the shadow of a call of the machine. Unless ``is_infallible``, the call is its own check."""
    type_ = call.type
    return Shadow(
        () if is_infallible else (call,),
        call,
        keeps_zero=type_.is_exact,
        has_few_digits=_has_few_digits(type_),
        is_native=True,
    )


Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Signature:
    """Types to which the arguments are cast, and the type of the result."""

    args: tuple[Type, ...]
    result: Type


Rule = Callable[[tuple[Type, ...]], Signature | None]
"""Function from argument types to a signature, or None where the overload does not apply."""


class NullRule(enum.Enum):
    """Result of a call with a NULL argument."""

    PROPAGATE = "NULL if an argument is NULL"
    CALLED_ON_NULL = "as described"


@dataclass(frozen=True, slots=True)
class Opcode:
    """One instruction of the expression machine, with an immediate operand computed from the call.

    The first ``operands`` arguments are registers (None: all). ``fold`` marks a binary operation that is
    folded over any number of operands.
    """

    name: str
    immediate: Callable[[Call], int] | None = None
    operands: int | None = None
    fold: bool = False
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Composition:
    """An expression over other functions. Its type may be any type with the same words."""

    build: Callable[[Call], Scalar]


@dataclass(frozen=True, slots=True)
class MemoizedFunction:
    """A Python function that runs once for each distinct combination of non-NULL arguments.

    ``build`` returns the function for a call. Its arguments and result are ``bool``, ``int`` (also for
    dates, intervals and unscaled decimals), ``float``, ``str``, or None for NULL.

    Raises:
        ValueError, ArithmeticError: The function raises these for an error in the data.
    """

    build: Callable[[Call], Callable[..., object]]
    takes_nulls: bool = False
    """Whether the function also runs for NULL arguments. Otherwise they give NULL."""
    build_encoded: Callable[[Call], Callable[..., str | None] | None] | None = None
    """Like ``build``, for a faster function that returns the encoded string of its value."""
    build_units: Callable[[Call], Callable[..., Any] | None] | None = None
    """Like ``build``, for a faster function over scaled integers.

    Its arguments are pairs ``(units, digits)``: an integer, and its digits behind the decimal point.
    It returns such a pair, a word if the result type has words, or None for NULL.
    """
    shadow: Callable[[Call, Sequence[Shadow]], Shadow | None] | None = None
    """Function from a call and the shadows of its arguments to the shadow of its value."""


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """A user's function of columns: numpy arrays of equal length, of the rows without NULLs."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """A numpy function on columns of words of equal length. It handles NULL and ERROR itself."""

    build: Callable[[Call], Callable[..., Words]]
    may_return_null: bool = False
    """Whether the result may be NULL when no argument is."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern of bytes and wildcards for the compiled matcher, which runs once for each distinct string."""

    pattern: Callable[[Call], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Membership:
    """Test whether the first argument is among literals."""


Implementation = (
    Opcode | Composition | MemoizedFunction | ColumnFunction | VectorFunction | Matcher | Membership
)


@dataclass(frozen=True, slots=True)
class Overload:
    """An implementation and the rule for its argument types."""

    rule: Rule
    implementation: Implementation


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function. ``examples`` maps SQL expressions to equal SQL literals.

    ``accepts`` describes the argument types in error messages.
    """

    name: str
    accepts: str
    doc: str
    examples: Mapping[str, str] = field(hash=False)
    overloads: tuple[Overload, ...]
    nulls: NullRule = NullRule.PROPAGATE
    also: tuple[str, ...] = ()
    """Descriptions of the arguments of overloads that lazily imported modules added. Errors omit them."""
    extension: str = ""
    """Name of the extension that defines the function; empty for built-in functions."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A resolved call: the function, the types to which arguments are cast, and the result type."""

    function: ScalarFunction
    arg_types: tuple[Type, ...]
    result_type: Type


_FUNCTIONS: dict[str, ScalarFunction] = {}
_PRIMITIVES: dict[str, Implementation] = {}


def register_scalar(
    name: str,
    accepts: str,
    doc: str,
    examples: Mapping[str, str],
    *overloads: Overload,
    nulls: NullRule = NullRule.PROPAGATE,
) -> ScalarFunction:
    """Register a scalar function. Overloads are tried in order."""
    assert name not in _FUNCTIONS, name
    return register_function(ScalarFunction(name, accepts, doc, examples, overloads, nulls))


def register_function(function: ScalarFunction) -> ScalarFunction:
    """Register a scalar function in place of any function of its name."""
    _FUNCTIONS[function.name] = function
    return function


def add_overloads(name: str, accepts: str, *overloads: Overload) -> None:
    """Prepend overloads to a function, for types whose module is imported on first use."""
    function = lookup(name)
    also = tuple(sorted({*function.also, accepts}))
    _FUNCTIONS[name] = replace(function, also=also, overloads=(*overloads, *function.overloads))


def register_memoized(
    name: str, accepts: str, rule: Rule, examples: Mapping[str, str]
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return a decorator that registers a Python function as a memoized scalar function.

    The docstring of the Python function becomes the SQL function's description.
    """

    def register(function: Callable[..., object]) -> Callable[..., object]:
        doc = (function.__doc__ or "").strip()
        register_scalar(name, accepts, doc, examples, Overload(rule, MemoizedFunction(lambda call: function)))
        return function

    return register


def register_primitive(name: str, implementation: Implementation) -> None:
    """Register a building block of compositions. Its name begins with ``$``, so no text can name it."""
    assert name.startswith("$") and name not in _PRIMITIVES, name
    _PRIMITIVES[name] = implementation


def implementation(call: Call) -> Implementation:
    """Return the implementation of a call whose arguments have the types that :func:`resolve` demands."""
    if call.function in _PRIMITIVES or (call.function[0] == "$" and autoload.load_primitive(call.function)):
        return _PRIMITIVES[call.function]
    if call.function[0] == "$" and call.function not in _FUNCTIONS:
        autoload.import_every_module()
        if call.function in _PRIMITIVES:
            return _PRIMITIVES[call.function]
    types = tuple(arg.type for arg in call.args)
    autoload.load_types(types)
    try:
        function = lookup(call.function)
    except ProgrammingError:
        extensions.load_all()
        function = lookup(call.function)
    for overload in function.overloads:
        if overload.rule(types) is not None:
            return overload.implementation
    raise _no_overload_error(function, types)


def may_return_null(function: Callable[..., object]) -> bool:
    """Check whether a Python function may return None, by its return annotation. Without one it may."""
    hint = getattr(function, "__annotations__", {}).get("return", None)
    return not (isinstance(hint, type) and hint not in (type(None), object, Any))


def functions(extensions: Container[str] = ()) -> Iterator[ScalarFunction]:
    """Return the built-in functions and those of some extensions, ordered by name."""
    autoload.load_all()
    listed = (one for one in _FUNCTIONS.values() if not one.extension or one.extension in extensions)
    return iter(sorted(listed, key=lambda function: function.name))


def function_names() -> frozenset[str]:
    """Return the names of all scalar functions, including those whose modules are not imported yet."""
    return autoload.scalar_names().union(_FUNCTIONS)


def is_function(name: str) -> bool:
    """Check whether a scalar function has this name."""
    return name in _FUNCTIONS or name in autoload.scalar_names()


def lookup(name: str) -> ScalarFunction:
    """Return the function of a canonical name.

    Raises:
        ProgrammingError: There is no such function. The hint has similar names.
        NotSupportedError: Postgres has the function, and kpg does not support it.
    """
    if isinstance(name, UserFunctionName):
        return name.definition
    function = _FUNCTIONS.get(name)
    if function is None and autoload.load_scalar(name):
        function = _FUNCTIONS[name]
    if function is None:
        if (refusal := unsupported_call_error(name)) is not None:
            raise refusal
        near = difflib.get_close_matches(name, sorted(function_names()), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        raise ProgrammingError(f"unknown function {name}", hint=hint)
    return function


def resolve(name: str, arg_types: tuple[Type, ...]) -> Resolution:
    """Resolve a call by name and argument types.

    UNKNOWN stands for a NULL literal, or for a text literal whose type its context decides.
    """
    autoload.load_types(arg_types)
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
    raise _no_overload_error(function, arg_types)


def _no_overload_error(function: ScalarFunction, types: tuple[Type, ...]) -> ProgrammingError:
    type_list = ", ".join("NULL" if type_.kind is Kind.NULL else str(type_) for type_ in types)
    message = f"{function_text(function.name)} does not take ({type_list})"
    error = ProgrammingError(message, hint=f"it takes {function.accepts}; cast the arguments")
    error.sqlstate = "42883"
    return error
