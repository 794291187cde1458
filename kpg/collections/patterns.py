"""Multiway joins in Datalog style: ``conjunction`` joins collections on shared variables."""

from collections.abc import Iterator, Sequence

from kpg.collections.collection import Collection
from kpg.collections.expression import check_distinct
from kpg.collections.operators import DeltaPathSpec, HalfJoinSpec, Index, delta_join
from kpg.collections.rows import term_rows
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
    """Return (head...): the values of variables with which every atom is a row of its collection.

    An atom is a collection and a variable for each of its columns, in order. Multiplicities are
    multiplied. The plan is one delta join without intermediate state. A change of an atom is looked up
    in the others one by one, next in the atom with the most bound variables.

    ``conjunction("ac", (edges, "ab"), (edges, "bc"))`` returns paths of two edges.

    Raises ProgrammingError if there are fewer than two atoms, or if variables do not fit columns.
    """
    body = tuple(Atom(collection, check_distinct(variables)) for collection, variables in atoms)
    _check_variables(body, head)
    orders = [list(_join_order(first, body)) for first in range(len(body))]
    indexes = _choose_indexes(body, orders)
    term = delta_join([_make_path(first, orders[first], body, indexes, head) for first in range(len(body))])
    return Collection(body[0].collection._flow, term_rows(term, tuple(head), _nullable_flags(body, head)))


def _check_variables(body: Sequence[Atom], head: Sequence[str]) -> None:
    """Raise ProgrammingError unless every variable has one type and those of the head occur in atoms."""
    if len(body) < 2:
        raise ProgrammingError("a conjunction has two atoms or more", hint="use map() and filter() on one")
    types: dict[str, Type] = {}
    for atom in body:
        if len(atom.variables) != len(atom.collection.columns):
            raise ProgrammingError(
                f"{len(atom.variables)} variables for columns {', '.join(atom.collection.columns)}",
                hint="project() the columns first",
            )
        for variable, type_ in zip(atom.variables, atom.collection.types, strict=True):
            if types.setdefault(variable, type_) != type_:
                raise ProgrammingError(
                    f"variable {variable} is {types[variable]} and {type_}", hint="cast one"
                )
    for variable in check_distinct(head):
        if variable not in types:
            raise ProgrammingError(f"variable {variable} is in no atom")


def _nullable_flags(body: Sequence[Atom], head: Sequence[str]) -> list[bool]:
    """Return whether each variable can be None, which requires that it can in all its columns."""
    flags: dict[str, bool] = {}
    for atom in body:
        for variable, flag in zip(atom.variables, atom.collection._rows.flags, strict=True):
            flags[variable] = flags.get(variable, True) and flag
    return [flags[variable] for variable in head]


def _join_order(first: int, body: Sequence[Atom]) -> Iterator[tuple[int, Key]]:
    """Yield the atoms after the first, each with the positions of its bound columns."""
    bound, remaining = (
        set(body[first].variables),
        [position for position in range(len(body)) if position != first],
    )
    while remaining:
        next_atom = max(remaining, key=lambda position: len(bound.intersection(body[position].variables)))
        variables = body[next_atom].variables
        yield next_atom, tuple(position for position, variable in enumerate(variables) if variable in bound)
        bound.update(variables)
        remaining.remove(next_atom)


def _choose_indexes(
    body: Sequence[Atom], orders: Sequence[Sequence[tuple[int, Key]]]
) -> dict[Collection, list[Index]]:
    """Return arrangements of each collection such that every lookup key is a prefix of one."""
    indexes: dict[Collection, list[Index]] = {atom.collection: [] for atom in body}
    lookups = {(body[position].collection, key) for order in orders for position, key in order}
    for collection, key in sorted(lookups, key=lambda lookup: (len(lookup[1]), lookup[1])):
        if not any(_matching_prefix(index, key) is not None for index in indexes[collection]):
            names = [collection.columns[position] for position in key or range(1)]
            indexes[collection].append(collection._index_by(names))
    return indexes


def _matching_prefix(index: Index, key: Key) -> Key | None:
    """Return the key's columns in the order of the arrangement's prefix, or None if they are not a prefix."""
    positions = {
        value.index: column for column, value in enumerate(index.rows.values) if isinstance(value, Column)
    }
    first = tuple(positions.get(index_position, -1) for index_position in range(len(key)))
    return first if set(first) == set(key) else None


def _make_path(
    first: int,
    order: Sequence[tuple[int, Key]],
    body: Sequence[Atom],
    indexes: dict[Collection, list[Index]],
    head: Sequence[str],
) -> DeltaPathSpec:
    """Return the path of lookups for changes of an atom."""
    start = indexes[body[first].collection][0]
    variable_types = dict(zip(body[first].variables, start.rows.types, strict=True))
    lookups: list[HalfJoinSpec] = []
    for position, key in order:
        atom = body[position]
        index, prefix = _choose_index(indexes[atom.collection], key)
        stream = list(variable_types)
        new_values = {
            variable: _shift_columns(value, len(stream))
            for variable, value in zip(atom.variables, index.rows.values, strict=True)
        }
        values = new_values | {
            variable: Column(i, variable_types[variable]) for i, variable in enumerate(stream)
        }
        variable_types = {variable: value.type for variable, value in values.items()}
        outputs = head if len(lookups) == len(order) - 1 else variable_types
        mfp = Mfp((), tuple(values[variable] for variable in outputs))
        key_columns = tuple(stream.index(atom.variables[column]) for column in prefix)
        lookups.append(HalfJoinSpec(index.term, position, key_columns, mfp))
    return DeltaPathSpec(start.term, Mfp((), start.rows.values), tuple(lookups))


def _shift_columns(value: Scalar, offset: int) -> Scalar:
    return remap(value, lambda column: column + offset)


def _choose_index(indexes: Sequence[Index], key: Key) -> tuple[Index, Key]:
    """Return the first arrangement with the key as a prefix."""
    return next((index, prefix) for index in indexes if (prefix := _matching_prefix(index, key)) is not None)
