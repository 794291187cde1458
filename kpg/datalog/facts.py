"""Facts as words, inserted into and deleted from tables as sets. The caller commits."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.datalog.terms import RANGES, STRUCTURED, NoTerm, canonical
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError
from kpg.runtime.types import Schema, Type
from kpg.session.base_table import Table

Words = NDArray[np.int64]


def python_value(value: core.Value, type_: Type, dictionary: Dictionary) -> Any:
    """A constant of a program as Python has it."""
    return value if isinstance(value, str) else to_python(value, type_, dictionary)


def rows_of(
    relation: core.Relation, rows: Iterable[Sequence[core.Value]], schema: Schema, dictionary: Dictionary
) -> Words:
    """The words ``int64[w, n]`` of a program's facts, in the types of a table's columns."""
    given = [
        tuple(
            python_value(value, type_, dictionary) for value, type_ in zip(row, relation.types, strict=True)
        )
        or (0,)
        for row in rows
    ]
    return from_rows(given, schema, dictionary)


def insert(table: Table, words: Words) -> int:
    """Insert those of the rows ``int64[w, n]`` that are not there, each once; how many."""
    if not words.shape[1]:
        return 0
    words = distinct(words)
    fresh = table.match(words) < 0
    if fresh.any():
        table.insert(np.ascontiguousarray(words[:, fresh]))
    return int(fresh.sum())


def delete(table: Table, words: Words) -> int:
    """Delete those of the rows ``int64[w, n]`` that are there, every copy of them; how many."""
    words = distinct(words)
    count = 0
    while words.shape[1]:
        places = table.match(words)
        there = places >= 0
        if not there.any():
            break
        table.delete(places[there])
        count += int(there.sum())
        words = np.ascontiguousarray(words[:, there])
    return count


def distinct(words: Words) -> Words:
    """The different ones of the rows ``int64[w, n]``."""
    if words.shape[1] < 2:
        return words
    ordered = words[:, np.lexsort(words[::-1])]
    first = np.ones(words.shape[1], np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return np.ascontiguousarray(ordered[:, first])


def apply(
    program: core.Program, tables: Mapping[str, Table], values: Mapping[str, Any], dictionary: Dictionary
) -> int:
    """Run the program's updates in the order of the text; how many rows changed.

    A fact that is there already is not inserted again, and deleting one that is absent is no error.
    ``values`` are those of the parameters; InterfaceError for one that is missing or unknown, DataError for
    one that is no value of its column's type.
    """
    require(program, values)
    changed = 0
    for (name, diff), group in groupby(program.updates, key=lambda one: (one.relation, one.diff)):
        table = tables[name]
        columns = program.relations[name].columns
        rows = [
            tuple(
                _given(program, term, column, values)
                if isinstance(term, core.Parameter)
                else python_value(term.value, term.type, dictionary)
                for term, column in zip(one.terms, columns, strict=True)
            )
            or (0,)
            for one in group
        ]
        words = from_rows(rows, table.schema, dictionary)
        changed += insert(table, words) if diff > 0 else delete(table, words)
    return changed


def _given(
    program: core.Program, term: core.Parameter, column: core.Column, values: Mapping[str, Any]
) -> Any:
    """The value of a parameter, as a value of the column."""
    value, type_ = values[term.name], column.type
    if type_.domain in STRUCTURED and isinstance(value, str):
        try:
            return canonical(value, type_, program.structures, program.number_size)
        except NoTerm as error:
            raise DataError(f"${term.name} is no {type_.name}: {error}") from None
    low, high = RANGES.get((type_.domain, program.number_size), (value, value))
    if isinstance(value, int) and not low <= value <= high:
        size = program.number_size
        raise DataError(f"{value} is out of range for {type_.name} of {size} bits (${term.name})")
    return value


def require(program: core.Program, values: Mapping[str, Any]) -> None:
    """Raise InterfaceError unless the values are those of the updates' parameters."""
    terms = [term for update in program.updates for term in update.terms]
    check_names([term.name for term in terms if isinstance(term, core.Parameter)], values)


def check_names(wanted: Iterable[str], values: Mapping[str, Any]) -> None:
    """Raise InterfaceError unless there is a value for each parameter, and for nothing else."""
    names = list(dict.fromkeys(wanted))
    missing = [name for name in names if name not in values]
    extra = [name for name in values if name not in names]
    if missing:
        raise InterfaceError(
            f"there is no value for ${missing[0]}", hint=f"give {', '.join(f'{name}=...' for name in names)}"
        )
    if extra:
        known = ", ".join(f"${name}" for name in names) or "none"
        raise InterfaceError(f"there is no parameter ${extra[0]}", hint=f"the parameters are {known}")
