"""The one place where a scalar function is defined: name, types, NULLs, meaning, examples, implementation.

The binder asks :func:`resolve` what a call means; the runtime asks :func:`implementation`
how it is computed. Nothing here imports compiled code: an :class:`Opcode` is a name.
"""

import difflib
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import later
from kpg.runtime.functions.named import Named
from kpg.runtime.functions.shadows import Shadow
from kpg.runtime.functions.sql_text import spelling
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Scalar
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported import unsupported_call

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
    operands that stands for any number of them.
    """

    name: str
    immediate: Callable[[Call], int] | None = None
    operands: int | None = None
    fold: bool = False


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
    if call.function in _PRIMITIVES or (call.function[0] == "$" and later.bring_primitive(call.function)):
        return _PRIMITIVES[call.function]
    if call.function[0] == "$" and call.function not in _FUNCTIONS:
        later.bring_every_module()
        if call.function in _PRIMITIVES:
            return _PRIMITIVES[call.function]
    types = tuple(arg.type for arg in call.args)
    later.bring_types(types)
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
    later.bring_all()
    return iter(sorted(_FUNCTIONS.values(), key=lambda function: function.name))


def function_names() -> frozenset[str]:
    """The names of all scalar functions, those included that are not defined yet."""
    return later.scalar_names().union(_FUNCTIONS)


def is_function(name: str) -> bool:
    """Whether a name is that of a scalar function."""
    return name in _FUNCTIONS or name in later.scalar_names()


def lookup(name: str) -> ScalarFunction:
    """The function of a canonical name; ProgrammingError with the nearest names if there is none.

    NotSupportedError if it is a function of Postgres that kpg refuses by name.
    """
    if isinstance(name, Named):
        return name.definition
    function = _FUNCTIONS.get(name)
    if function is None and later.bring_scalar(name):
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
    later.bring_types(arg_types)
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
