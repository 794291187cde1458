"""User-defined SQL functions and aggregates as catalog records, and overload resolution for their calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.qualified_names import parse_search_path
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.type_rules import common_type, is_implicitly_castable
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.types import TEXT, UNKNOWN, Kind, Type, array

ELEMENTS: Final = ("anyelement", "anynonarray", "anyenum", "anycompatible", "anycompatiblenonarray")
ARRAYS: Final = ("anyarray", "anycompatiblearray")
POLYMORPHIC: Final = frozenset((*ELEMENTS, *ARRAYS))
"""Polymorphic types, which stand for argument types."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its name, "" if unnamed, its type, and the text of its DEFAULT, "" if it has none."""

    name: str
    type: Type
    default: str = ""
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Routine:
    """A SQL function whose body is a query.

    ``columns`` names the result columns if there are several; ``result`` is then a RECORD. Polymorphic
    types have only a name.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    columns: tuple[str, ...]
    rows: bool
    body: str
    strict: bool
    outs: tuple[tuple[str, Type], ...] = ()
    """OUT parameters, or the columns of RETURNS TABLE."""
    definer: bool = False
    """Whether it is SECURITY DEFINER."""
    declared: tuple[tuple[str, str], ...] = ()
    """Other attributes by kind, in order: ``("volatility", "STABLE")``."""

    @property
    def path(self) -> tuple[str, ...] | None:
        """The search path of its body; None for the caller's."""
        said = dict(self.declared).get("search_path")
        return None if said is None else parse_search_path(said)

    @property
    def key(self) -> str:
        """Name of the function as a dependency of views. No relation has such a name."""
        return f"function {self.name}"

    @property
    def label(self) -> str:
        """The function's name with its argument types, as stored plans name it."""
        return f"{self.name}({', '.join(str(one.type) for one in self.parameters)})"

    def has_argument_types(self, types: Sequence[Type]) -> bool:
        """Return whether the parameters have exactly these types."""
        return tuple(one.type for one in self.parameters) == tuple(types)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """CREATE AGGREGATE: the state type, the transition function and the final function.

    ``init`` is the text of the initial state, None for NULL. ``fold`` is the name of the function that
    computes the aggregate over arrays, and ``result`` is its type.
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
    """Computes an aggregate over arrays of its arguments, with known types.

    ``items`` are the element types of the arrays. ``first`` computes the initial state from no columns.
    ``step`` computes the next state from the state, column 0, and the elements. ``final`` computes the
    result. If ``strict``, elements with NULL are skipped and a NULL state stays NULL. With ``start``,
    the first element is converted to the initial state.
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
    """The overload of a call, and the position of the argument of each parameter.

    A position is None for an omitted argument, and several positions for VARIADIC.
    """

    routine: Routine
    places: tuple[int | tuple[int, ...] | None, ...]


def resolve_overload(
    routines: Sequence[Routine], types: Sequence[Type], names: Sequence[str], has_variadic: bool
) -> Chosen:
    """Return the overload that fits a call best.

    ``names`` has the name of each argument, "" for positional ones. ``has_variadic`` tells whether the
    last argument is VARIADIC.

    Raises:
        ProgrammingError: No overload fits, or several fit equally.
    """
    found: list[tuple[int, Chosen]] = []
    for routine in routines:
        places = _match_parameters(routine, names, has_variadic)
        if places is None:
            continue
        fitting = _match_types(routine, places, types)
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


def _match_parameters(routine: Routine, names: Sequence[str], has_variadic: bool) -> tuple[Place, ...] | None:
    """Return the position of each parameter's argument; None if the arguments do not match."""
    known = [one.name.lower() for one in routine.parameters]
    places: list[Place] = [None] * len(known)
    variadic = bool(routine.parameters) and routine.parameters[-1].variadic and not has_variadic
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


def _match_types(
    routine: Routine, positions: Sequence[Place], types: Sequence[Type]
) -> tuple[int, Routine] | None:
    """Return the number of exact type matches and the routine with polymorphic types resolved, else None."""
    given: list[tuple[Type, Parameter]] = []
    for place, parameter in zip(positions, routine.parameters, strict=True):
        if isinstance(place, int):
            given.append((types[place], parameter))
        elif isinstance(place, tuple):
            element = replace(parameter, type=_element(parameter.type))
            given += [(types[one], element) for one in place]
    meant = _polymorphic_type(given)
    if meant is None:
        return None
    exact = 0
    for type_, parameter in given:
        target = resolve_polymorphic(parameter.type, meant)
        if not is_implicitly_castable(type_, target) and not _widens(type_, target):
            return None
        exact += 2 * (type_ == target) + (type_ == UNKNOWN and target == TEXT)
    parameters = tuple(replace(one, type=resolve_polymorphic(one.type, meant)) for one in routine.parameters)
    return exact, replace(routine, parameters=parameters, result=resolve_polymorphic(routine.result, meant))


NUMERIC_WIDENING: Final = (
    Kind.SMALLINT,
    Kind.INTEGER,
    Kind.BIGINT,
    Kind.DECIMAL,
    Kind.NUMERIC,
    Kind.REAL,
    Kind.DOUBLE,
)
"""Numeric kinds in the order of implicit widening."""


def _widens(source: Type, target: Type) -> bool:
    """Return whether a number converts implicitly to a wider kind."""
    if source.kind not in NUMERIC_WIDENING or target.kind not in NUMERIC_WIDENING:
        return False
    return NUMERIC_WIDENING.index(source.kind) < NUMERIC_WIDENING.index(target.kind)


def _element(type_: Type) -> Type:
    if type_.kind is Kind.ARRAY:
        return type_.parts[0]
    return replace(type_, name="anyelement") if type_.name in ARRAYS else type_


def _polymorphic_type(arguments: Sequence[tuple[Type, Parameter]]) -> Type | None:
    """Return the type that ANYELEMENT stands for, UNKNOWN if unused; None if arguments differ."""
    found: list[Type] = []
    for type_, parameter in arguments:
        if parameter.type.name in ELEMENTS:
            found.append(type_)
        elif parameter.type.name in ARRAYS and type_.kind is Kind.ARRAY:
            found.append(type_.parts[0])
        elif parameter.type.name in ARRAYS and type_ != UNKNOWN:
            return None
    known = tuple(type_ for type_ in found if type_ != UNKNOWN)
    return common_type(known) if known else TEXT if found else UNKNOWN


def resolve_polymorphic(type_: Type, element: Type) -> Type:
    """Return a type with ANYELEMENT and ANYARRAY replaced."""
    if type_.name in ARRAYS:
        return array(element)
    if type_.name in ELEMENTS:
        return element
    if not type_.parts:
        return type_
    return replace(type_, parts=tuple(resolve_polymorphic(part, element) for part in type_.parts))
