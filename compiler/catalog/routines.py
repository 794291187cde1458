"""User-defined SQL functions and aggregates as catalog records, and overload resolution for their calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.qualified_names import path_of
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.type_rules import common_type, converts
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.types import TEXT, UNKNOWN, Kind, Type, array

ELEMENTS: Final = ("anyelement", "anynonarray", "anyenum", "anycompatible", "anycompatiblenonarray")
ARRAYS: Final = ("anyarray", "anycompatiblearray")
POLYMORPHIC: Final = frozenset((*ELEMENTS, *ARRAYS))
"""Types that stand for those of the arguments."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: its name, "" without one, its type, and the text of its DEFAULT, "" without one."""

    name: str
    type: Type
    default: str = ""
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Routine:
    """A function whose body is a query.

    ``columns`` are the names of what it gives, if that is more than one value; ``result`` is then a RECORD.
    Of types only their names are known where they stand for those of the arguments.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    columns: tuple[str, ...]
    rows: bool
    body: str
    strict: bool
    outs: tuple[tuple[str, Type], ...] = ()
    """The OUT parameters, and the columns of TABLE."""
    definer: bool = False
    """Whether its body has the rights of its owner: SECURITY DEFINER."""
    declared: tuple[tuple[str, str], ...] = ()
    """What else it was said to be, by kinds in their order: ``("volatility", "STABLE")``."""

    @property
    def path(self) -> tuple[str, ...] | None:
        """The schemas in which its body looks up names; None for those of who calls it."""
        said = dict(self.declared).get("search_path")
        return None if said is None else path_of(said)

    @property
    def key(self) -> str:
        """By what views name it that use it: no relation has such a name."""
        return f"function {self.name}"

    @property
    def label(self) -> str:
        """It with the types of its arguments: how plans that are kept name it."""
        return f"{self.name}({', '.join(str(one.type) for one in self.parameters)})"

    def same_arguments(self, types: Sequence[Type]) -> bool:
        """Whether the parameters are of these types."""
        return tuple(one.type for one in self.parameters) == tuple(types)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """CREATE AGGREGATE: a state, how an argument's value changes it, and what it gives in the end.

    ``init`` is the text of the first state, None for NULL; ``fold`` is the name of the function of arrays
    that computes all of it, ``result`` the type of its value.
    """

    name: str
    types: tuple[Type, ...]
    step: str
    state: Type
    init: str | None
    final: str
    fold: str
    result: Type | None = None


@dataclass(frozen=True, slots=True)
class ArrayFold:
    """What computes an aggregate of arrays of its arguments, whose types are known.

    ``items`` are the types of the elements of the arrays. ``first`` computes the first state, of no columns;
    ``step`` the next one, of column 0, the state, and the elements behind it; ``final`` the result.
    ``strict``: elements with a NULL are left out, and a state that is NULL stays. With ``start`` the first
    element makes the first state, of column 0.
    """

    label: str
    items: tuple[Type, ...]
    state: Type
    first: Mfp
    step: Mfp
    final: Mfp
    result: Type
    strict: bool
    start: Mfp | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a call means: a routine of known types, and for each parameter the place of its argument.

    None is the place of what the call leaves out, several that of VARIADIC.
    """

    routine: Routine
    places: tuple[int | tuple[int, ...] | None, ...]


def chosen(routines: Sequence[Routine], types: Sequence[Type], names: Sequence[str], spread: bool) -> Chosen:
    """The routine that fits a call best; ProgrammingError if none does, or two do.

    ``names`` has the name that the call gives to each argument, "" for none; ``spread`` says that VARIADIC
    stands before the last one.
    """
    found: list[tuple[int, Chosen]] = []
    for routine in routines:
        places = _places(routine, names, spread)
        if places is None:
            continue
        fitting = _fitting(routine, places, types)
        if fitting is not None:
            found.append((fitting[0], Chosen(fitting[1], places)))
    if not found:
        shown = ", ".join(str(type_) for type_ in types)
        raise ProgrammingError(f"function {routines[0].name}({shown}) does not exist")
    best = max(exact for exact, _ in found)
    fitted = [one for exact, one in found if exact == best]
    if len(fitted) > 1:
        raise ProgrammingError(f"function {routines[0].name} is not unique here", hint="add a CAST")
    return fitted[0]


Place = int | tuple[int, ...] | None


def _places(routine: Routine, names: Sequence[str], spread: bool) -> tuple[Place, ...] | None:
    """For each parameter the place of its argument; None if the arguments are not those of the routine."""
    known = [one.name.lower() for one in routine.parameters]
    places: list[Place] = [None] * len(known)
    variadic = bool(routine.parameters) and routine.parameters[-1].variadic and not spread
    for place, name in enumerate(names):
        if not name and variadic and place >= len(known) - 1:
            before = places[-1] if isinstance(places[-1], tuple) else ()
            places[-1] = (*before, place)
            continue
        target = place if not name else known.index(name.lower()) if name.lower() in known else len(known)
        if target >= len(known) or places[target] is not None:
            return None
        places[target] = place
    for one, parameter in zip(places, routine.parameters, strict=True):
        if one is None and not parameter.default and not parameter.variadic:
            return None
    return tuple(places)


def _fitting(routine: Routine, places: Sequence[Place], types: Sequence[Type]) -> tuple[int, Routine] | None:
    """How many arguments are of the very types, and the routine with those that its types stand for."""
    given: list[tuple[Type, Parameter]] = []
    for place, parameter in zip(places, routine.parameters, strict=True):
        if isinstance(place, int):
            given.append((types[place], parameter))
        elif isinstance(place, tuple):
            element = replace(parameter, type=_element(parameter.type))
            given += [(types[one], element) for one in place]
    meant = _meant(given)
    if meant is None:
        return None
    exact = 0
    for type_, parameter in given:
        target = settled(parameter.type, meant)
        if not converts(type_, target) and not _widens(type_, target):
            return None
        exact += 2 * (type_ == target) + (type_ == UNKNOWN and target == TEXT)
    parameters = tuple(replace(one, type=settled(one.type, meant)) for one in routine.parameters)
    return exact, replace(routine, parameters=parameters, result=settled(routine.result, meant))


WIDER: Final = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.NUMERIC, Kind.REAL, Kind.DOUBLE)


def _widens(source: Type, target: Type) -> bool:
    """Whether a number is taken where another kind of number is wanted, without a cast."""
    if source.kind not in WIDER or target.kind not in WIDER:
        return False
    return WIDER.index(source.kind) < WIDER.index(target.kind)


def _element(type_: Type) -> Type:
    if type_.kind is Kind.ARRAY:
        return type_.parts[0]
    return replace(type_, name="anyelement") if type_.name in ARRAYS else type_


def _meant(given: Sequence[tuple[Type, Parameter]]) -> Type | None:
    """The type that ANYELEMENT stands for, UNKNOWN if for none; None if arguments differ."""
    found: list[Type] = []
    for type_, parameter in given:
        if parameter.type.name in ELEMENTS:
            found.append(type_)
        elif parameter.type.name in ARRAYS and type_.kind is Kind.ARRAY:
            found.append(type_.parts[0])
        elif parameter.type.name in ARRAYS and type_ != UNKNOWN:
            return None
    known = tuple(type_ for type_ in found if type_ != UNKNOWN)
    return common_type(known) if known else TEXT if found else UNKNOWN


def settled(type_: Type, meant: Type) -> Type:
    """A type with what ANYELEMENT stands for."""
    if type_.name in ARRAYS:
        return array(meant)
    if type_.name in ELEMENTS:
        return meant
    if not type_.parts:
        return type_
    return replace(type_, parts=tuple(settled(part, meant) for part in type_.parts))
