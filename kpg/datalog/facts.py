"""Facts as words, inserted into and deleted from tables as sets. The caller commits."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.datalog.terms import RANGES, STRUCTURED, TermError, canonical_term
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError
from kpg.runtime.types import Schema, Type
from kpg.session.base_table import Table

Words = NDArray[np.int64]


def python_value(value: core.Value, type_: Type, dictionary: Dictionary) -> Any:
    """Return a constant of a program as a Python value."""
    return value if isinstance(value, str) else to_python(value, type_, dictionary)


def encode_rows(
    relation: core.Relation, rows: Iterable[Sequence[core.Value]], schema: Schema, dictionary: Dictionary
) -> Words:
    """Return a program's facts as words ``int64[w, n]``, in the types of the table's columns."""
    values = [
        tuple(
            python_value(value, type_, dictionary) for value, type_ in zip(row, relation.types, strict=True)
        )
        or (0,)
        for row in rows
    ]
    return from_rows(values, schema, dictionary)


def insert(table: Table, words: Words) -> int:
    """Insert the rows ``int64[w, n]`` that the table lacks, each once, and return their number."""
    if not words.shape[1]:
        return 0
    words = distinct(words)
    is_new = table.match(words) < 0
    if is_new.any():
        table.insert(np.ascontiguousarray(words[:, is_new]))
    return int(is_new.sum())


def delete(table: Table, words: Words) -> int:
    """Delete every copy of the rows ``int64[w, n]`` that the table has, and return the number of copies."""
    words = distinct(words)
    count = 0
    while words.shape[1]:
        rowids = table.match(words)
        is_present = rowids >= 0
        if not is_present.any():
            break
        table.delete(rowids[is_present])
        count += int(is_present.sum())
        words = np.ascontiguousarray(words[:, is_present])
    return count


def distinct(words: Words) -> Words:
    """Return the distinct rows of ``int64[w, n]``, sorted."""
    if words.shape[1] < 2:
        return words
    ordered = words[:, np.lexsort(words[::-1])]
    first = np.ones(words.shape[1], np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return np.ascontiguousarray(ordered[:, first])


def apply_updates(
    program: core.Program, tables: Mapping[str, Table], values: Mapping[str, Any], dictionary: Dictionary
) -> int:
    """Run the program's updates in the order of its text, and return the number of changed rows.

    Inserting an existing fact and deleting an absent one change nothing. ``values`` are the values of
    the parameters.

    Raises:
      InterfaceError: for a missing or an unknown parameter.
      DataError: for a value that does not belong to its column's type.
    """
    check_parameters(program, values)
    changed = 0
    for (name, diff), group in groupby(program.updates, key=lambda update: (update.relation, update.diff)):
        table = tables[name]
        columns = program.relations[name].columns
        rows = [
            tuple(
                _parameter_value(program, term, column, values)
                if isinstance(term, core.Parameter)
                else python_value(term.value, term.type, dictionary)
                for term, column in zip(update.terms, columns, strict=True)
            )
            or (0,)
            for update in group
        ]
        words = from_rows(rows, table.schema, dictionary)
        changed += insert(table, words) if diff > 0 else delete(table, words)
    return changed


def _parameter_value(
    program: core.Program, term: core.Parameter, column: core.Column, values: Mapping[str, Any]
) -> Any:
    """Return the value of a parameter as a value of the column."""
    value, type_ = values[term.name], column.type
    if type_.domain in STRUCTURED and isinstance(value, str):
        try:
            return canonical_term(value, type_, program.structures, program.number_size)
        except TermError as error:
            raise DataError(f"${term.name} is no {type_.name}: {error}") from None
    low, high = RANGES.get((type_.domain, program.number_size), (value, value))
    if isinstance(value, int) and not low <= value <= high:
        size = program.number_size
        raise DataError(f"{value} is out of range for {type_.name} of {size} bits (${term.name})")
    return value


def check_parameters(program: core.Program, values: Mapping[str, Any]) -> None:
    """Raise InterfaceError unless ``values`` has exactly the parameters of the updates."""
    terms = [term for update in program.updates for term in update.terms]
    check_names([term.name for term in terms if isinstance(term, core.Parameter)], values)


def check_names(required: Iterable[str], values: Mapping[str, Any]) -> None:
    """Raise InterfaceError unless ``values`` has exactly the ``required`` parameters."""
    names = list(dict.fromkeys(required))
    missing = [name for name in names if name not in values]
    extra = [name for name in values if name not in names]
    if missing:
        raise InterfaceError(
            f"there is no value for ${missing[0]}", hint=f"give {', '.join(f'{name}=...' for name in names)}"
        )
    if extra:
        expected = ", ".join(f"${name}" for name in names) or "none"
        raise InterfaceError(f"there is no parameter ${extra[0]}", hint=f"the parameters are {expected}")
