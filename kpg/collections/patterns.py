"""Multiway joins in Datalog style: ``conjunction`` joins collections on shared variables."""

from collections.abc import Iterator, Sequence

from kpg.collections.collection import Collection
from kpg.collections.expression import distinct
from kpg.collections.operators import Index, Lookup, Path, delta_join
from kpg.collections.rows import plain
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, remap
from kpg.runtime.types import Type

Key = tuple[int, ...]
"""Positions of a collection's columns."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A collection, with a variable for each of its columns."""

    collection: Collection
    variables: tuple[str, ...]


def conjunction(head: Sequence[str], *atoms: tuple[Collection, Sequence[str]]) -> Collection:
    """(head...): the values of variables with which every atom is a row of its collection.

    An atom is a collection and a variable for each of its columns, in order; multiplicities multiply. It is
    one delta join: a change of an atom is looked up in the others one by one, next in the one of which most
    is known, and nothing in between is kept. ``conjunction("ac", (edges, "ab"), (edges, "bc"))``: two hops.
    Raises ProgrammingError if there are fewer than two atoms, or variables do not fit columns.
    """
    body = tuple(Atom(collection, distinct(variables)) for collection, variables in atoms)
    _check(body, head)
    orders = [list(_order(first, body)) for first in range(len(body))]
    indexes = _indexes(body, orders)
    term = delta_join([_path(first, orders[first], body, indexes, head) for first in range(len(body))])
    return Collection(body[0].collection._flow, plain(term, tuple(head), _flags(body, head)))


def _check(body: Sequence[Atom], head: Sequence[str]) -> None:
    """ProgrammingError unless every variable has one type, and those of the head have one."""
    if len(body) < 2:
        raise ProgrammingError("a conjunction has two atoms or more", hint="use map() and filter() on one")
    found: dict[str, Type] = {}
    for atom in body:
        if len(atom.variables) != len(atom.collection.columns):
            raise ProgrammingError(
                f"{len(atom.variables)} variables for columns {', '.join(atom.collection.columns)}",
                hint="project() the columns that are wanted",
            )
        for variable, type_ in zip(atom.variables, atom.collection.types, strict=True):
            if found.setdefault(variable, type_) != type_:
                raise ProgrammingError(
                    f"variable {variable} is {found[variable]} and {type_}", hint="cast one"
                )
    for variable in distinct(head):
        if variable not in found:
            raise ProgrammingError(f"variable {variable} is in no atom")


def _flags(body: Sequence[Atom], head: Sequence[str]) -> list[bool]:
    """Whether a variable can be None: only if it can in all its columns."""
    flags: dict[str, bool] = {}
    for atom in body:
        for variable, flag in zip(atom.variables, atom.collection._rows.flags, strict=True):
            flags[variable] = flags.get(variable, True) and flag
    return [flags[variable] for variable in head]


def _order(first: int, body: Sequence[Atom]) -> Iterator[tuple[int, Key]]:
    """The atoms after the first, each with those of its columns whose variables are known then."""
    known, left = set(body[first].variables), [place for place in range(len(body)) if place != first]
    while left:
        best = max(left, key=lambda place: len(known.intersection(body[place].variables)))
        variables = body[best].variables
        yield best, tuple(place for place, variable in enumerate(variables) if variable in known)
        known.update(variables)
        left.remove(best)


def _indexes(
    body: Sequence[Atom], orders: Sequence[Sequence[tuple[int, Key]]]
) -> dict[Collection, list[Index]]:
    """Arrangements of each collection, in which all that is looked up is a prefix."""
    found: dict[Collection, list[Index]] = {atom.collection: [] for atom in body}
    wanted = {(body[place].collection, key) for order in orders for place, key in order}
    for collection, key in sorted(wanted, key=lambda want: (len(want[1]), want[1])):
        if not any(_prefix(index, key) is not None for index in found[collection]):
            names = [collection.columns[place] for place in key or range(1)]
            found[collection].append(collection._indexed(names))
    return found


def _prefix(index: Index, key: Key) -> Key | None:
    """The key's columns in the order in which they begin the arrangement's rows, if they do."""
    places = {
        value.index: place for place, value in enumerate(index.rows.values) if isinstance(value, Column)
    }
    first = tuple(places.get(position, -1) for position in range(len(key)))
    return first if set(first) == set(key) else None


def _path(
    first: int,
    order: Sequence[tuple[int, Key]],
    body: Sequence[Atom],
    indexes: dict[Collection, list[Index]],
    head: Sequence[str],
) -> Path:
    """How a change of an atom finds its matches in the others."""
    start = indexes[body[first].collection][0]
    known = dict(zip(body[first].variables, start.rows.types, strict=True))
    lookups: list[Lookup] = []
    for place, key in order:
        atom = body[place]
        index, prefix = _chosen(indexes[atom.collection], key)
        stream = list(known)
        found = {
            variable: _moved(value, len(stream))
            for variable, value in zip(atom.variables, index.rows.values, strict=True)
        }
        values = found | {variable: Column(i, known[variable]) for i, variable in enumerate(stream)}
        known = {variable: value.type for variable, value in values.items()}
        outputs = head if len(lookups) == len(order) - 1 else known
        mfp = Mfp((), tuple(values[variable] for variable in outputs))
        by = tuple(stream.index(atom.variables[column]) for column in prefix)
        lookups.append(Lookup(index.term, place, by, mfp))
    return Path(start.term, Mfp((), start.rows.values), tuple(lookups))


def _moved(value: Scalar, by: int) -> Scalar:
    """The scalar over columns that begin further to the right."""
    return remap(value, lambda column: column + by)


def _chosen(indexes: Sequence[Index], key: Key) -> tuple[Index, Key]:
    """The first arrangement that serves the key."""
    return next((index, prefix) for index in indexes if (prefix := _prefix(index, key)) is not None)
