"""One atom of a body: the rows of its relation that match its terms."""

from collections.abc import Callable
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.rel import types as types_of
from kpg.compiler.rules import core
from kpg.compiler.rules.lowering.bindings import Bindings, Names, equal
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, Type

ANY: Final = "@any value"


@dataclass(frozen=True, slots=True)
class Context:
    """What lowering a rule needs: the relations of the program, and how they are read."""

    program: core.Program
    read: Callable[[str], Rel]
    """A relation by name: its columns first."""
    stratum: frozenset[str] = frozenset()
    """The relations that are computed together, if they depend on each other."""
    names: Names = field(default_factory=Names)


def any_value(type_: Type, number: int, place: int) -> core.Variable:
    """The variable that a wildcard in an aggregate is, there being one for each place: it may be NULL."""
    return core.Variable(f"{ANY} {number} {place}", type_)


def is_any(term: core.Term) -> bool:
    """Whether a term stands for a wildcard in an aggregate."""
    return isinstance(term, core.Variable) and term.name.startswith(ANY)


def matches(context: Context, atom: core.Atom) -> Bindings:
    """The atom's bindings, one for each row that matches."""
    relation = context.program.relations[atom.relation]
    rel = context.read(atom.relation)
    rel, columns = _values(rel, relation, atom)
    places: dict[str, int] = {}
    tests: list[Scalar] = []
    for term, column in zip(atom.terms, columns, strict=True):
        match term:
            case core.Wildcard():
                pass
            case core.Constant(value=value, type=type_):
                tests.append(equal(column, Literal(value, type_)))
            case core.Variable(name=name) if name in places:
                tests.append(equal(Column(places[name], column.type), column))
            case core.Variable(name=name):
                places[name] = column.index
            case core.Parameter(name=name):
                raise InternalError(f"parameter ${name} has no value in a rule")
            case _:
                assert_never(term)
    return Bindings(algebra.Filter(rel, tuple(tests)) if tests else rel, places)


def _values(rel: Rel, relation: core.Relation, atom: core.Atom) -> tuple[Rel, list[Column]]:
    """The relation without NULLs where the atom has a term, and the columns with its values."""
    used = [
        (place, column)
        for place, (column, term) in enumerate(zip(relation.columns, atom.terms, strict=True))
        if not isinstance(term, core.Wildcard) and not is_any(term)
    ]
    stored = [Column(place, column.stored) for place, column in enumerate(relation.columns)]
    present = tuple(Call("is_not_null", (stored[place],), BOOLEAN) for place, c in used if c.nullable)
    if present:
        rel = algebra.Filter(rel, present)
    cast = [(place, column.type.type) for place, column in used if column.stored != column.type.type]
    if cast:
        width = len(types_of(rel))
        rel = algebra.Map(rel, tuple(Call("cast", (stored[place],), type_) for place, type_ in cast))
        for offset, (place, type_) in enumerate(cast):
            stored[place] = Column(width + offset, type_)
    return rel, stored


def is_set(context: Context, atom: core.Atom) -> bool:
    """Whether the atom has each of its bindings once."""
    derived = context.program.relations[atom.relation].kind is core.Kind.DERIVED
    return derived and not any(isinstance(term, core.Wildcard) for term in atom.terms)


def matched(context: Context, atom: core.Atom) -> Bindings:
    """The atom's bindings, each once."""
    found = matches(context, atom)
    if is_set(context, atom):
        return found.narrowed(found.places) if found.places else found
    return found.distinct(found.places)
