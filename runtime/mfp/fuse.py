"""Calls of Python functions on what Python functions gave, as one function of what they all read.

``0.2 * avg(x)`` is a product of NUMERICs: the mean in between need not become a string of the dictionary,
which keeps every string for ever.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.named import Named
from kpg.runtime.functions.registry import Composition, Memoized, implementation
from kpg.runtime.mfp.memo import literal_value
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import Kind
from kpg.runtime.values.numeric import EXACT, shown_scale, spelled

Values = Sequence[Any]
Part = Callable[[Values], Any]


def fused(call: Call, how: Memoized, dictionary: Dictionary) -> tuple[Call, Memoized] | None:
    """A call with all NUMERICs in between made within it, and its function; None if there are none.

    Its arguments are what it reads, a NULL among them does not make it NULL.
    """
    if how.takes_nulls or isinstance(call.function, Named):
        return None
    if not any(_inner(arg) for arg in call.args):
        return None
    leaves: dict[Scalar, int] = {}
    function = _of_values(_Fusion(leaves, dictionary).call(call, how))
    read = Call("$fused", tuple(leaves), call.type)
    try:
        quick = _Units(leaves, dictionary).call(call, how)
    except _WithoutUnits:
        return read, Memoized(lambda call: function, takes_nulls=True)
    if call.type.kind is Kind.NUMERIC:
        spelling = _spelling(quick)
        return read, Memoized(lambda call: function, spelled=lambda call: spelling, takes_nulls=True)
    word = _of_values(quick)
    return read, Memoized(lambda call: word, takes_nulls=True)


def _of_values(part: Part) -> Callable[..., object]:
    return lambda *values: part(values)


def _spelling(part: Part) -> Callable[..., str | None]:
    def spell(*values: Any) -> str | None:
        found = part(values)
        return None if found is None else spelled(*found)

    return spell


def _inner(scalar: Scalar) -> bool:
    """Whether a NUMERIC is computed by Python functions of expressions without errors of their own."""
    if isinstance(scalar, If):
        branches = (scalar.then, scalar.otherwise)
        return any(map(_inner, branches)) and all(map(_safe, branches))
    return _memoized(scalar) is not None


def _memoized(scalar: Scalar) -> tuple[Call, Memoized] | None:
    """The Python function, and its call, that gives a NUMERIC of other than constants."""
    if (
        not isinstance(scalar, Call)
        or scalar.type.kind is not Kind.NUMERIC
        or isinstance(scalar.function, Named)
    ):
        return None
    how = implementation(scalar)
    if isinstance(how, Composition):
        return _memoized(how.build(scalar))
    if not isinstance(how, Memoized) or how.takes_nulls:
        return None
    return None if all(isinstance(arg, Literal) for arg in scalar.args) else (scalar, how)


def _safe(scalar: Scalar) -> bool:
    """Whether nothing that is read can be an error, which would count though the branch is not taken."""
    if isinstance(scalar, Column | Fetch | Literal):
        return True
    found = _memoized(scalar)
    return found is not None and all(map(_safe, found[0].args))


class _Fusion:
    """The places of what is read, and the functions over them."""

    def __init__(self, leaves: dict[Scalar, int], dictionary: Dictionary) -> None:
        self.leaves = leaves
        self.dictionary = dictionary

    def part(self, scalar: Scalar) -> Part:
        if isinstance(scalar, Literal):
            value = literal_value(scalar, self.dictionary)
            return lambda values: value
        if isinstance(scalar, If) and _inner(scalar):
            return self.choice(scalar)
        found = _memoized(scalar)
        if found is not None:
            return self.call(*found)
        place = self.leaves.setdefault(scalar, len(self.leaves))
        return lambda values: values[place]

    def choice(self, scalar: If) -> Part:
        condition, then, otherwise = map(self.part, (scalar.condition, scalar.then, scalar.otherwise))
        return lambda values: then(values) if condition(values) else otherwise(values)

    def call(self, call: Call, how: Memoized) -> Part:
        """The function, NULL where an argument is."""
        function, parts = how.build(call), [self.part(arg) for arg in call.args]

        def apply(values: Values) -> Any:
            args = [part(values) for part in parts]
            return None if None in args else function(*args)

        return apply


class _WithoutUnits(Exception):
    """Something is not made of whole numbers of units."""


class _Units(_Fusion):
    """As ``_Fusion``, of numbers in units of their last digits: those of words, and what is made of them."""

    def part(self, scalar: Scalar) -> Part:
        if isinstance(scalar, Literal):
            value = literal_value(scalar, self.dictionary)
            if value is None:
                return lambda values: None
            if scalar.type.kind is Kind.NUMERIC:
                if not value.is_finite():
                    raise _WithoutUnits
                places = shown_scale(value)
                value, scale = int(value.scaleb(places, EXACT)), places
            elif scalar.type.is_exact:
                scale = scalar.type.scale
            else:
                raise _WithoutUnits
            return lambda values: (value, scale)
        if isinstance(scalar, If) and _inner(scalar):
            return self.choice(scalar)
        found = _memoized(scalar)
        if found is not None:
            return self.call(*found)
        if not scalar.type.is_exact:
            raise _WithoutUnits
        return self.word(self.leaves[scalar], scalar.type.scale)

    def word(self, place: int, scale: int) -> Part:
        """A number that a word stands for."""

        def number(values: Values) -> tuple[int, int] | None:
            value = values[place]
            return None if value is None else (value, scale)

        return number

    def choice(self, scalar: If) -> Part:
        condition = _Fusion(self.leaves, self.dictionary).part(scalar.condition)
        then, otherwise = self.part(scalar.then), self.part(scalar.otherwise)
        return lambda values: then(values) if condition(values) else otherwise(values)

    def call(self, call: Call, how: Memoized) -> Part:
        function = None if how.units is None else how.units(call)
        if function is None:
            raise _WithoutUnits
        parts = [self.part(arg) for arg in call.args]

        def apply(values: Values) -> Any:
            args = [part(values) for part in parts]
            return None if None in args else function(*args)

        return apply
