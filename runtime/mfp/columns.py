"""Users' functions of columns, called with the arrays of those rows that have no NULL."""

from typing import Any

import numpy as np

from kpg.runtime.convert.foreign import from_arrays, to_arrays
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.registry import Columns
from kpg.runtime.scalar import Call
from kpg.runtime.types import ERROR, MIN_WORD, NULL, ColumnDef, Schema

Words = np.ndarray[Any, np.dtype[np.int64]]


def apply_columns(call: Call, implementation: Columns, args: Words, dictionary: Dictionary) -> Words:
    """The function over columns ``args int64[k, n]``; where it fails, each row by itself, so that only those
    fail which do."""
    result = np.full(args.shape[1], NULL, dtype=np.int64)
    result[(args == ERROR).any(axis=0)] = ERROR
    usable = np.flatnonzero((args >= MIN_WORD).all(axis=0))
    if len(usable):
        result[usable] = _called(call, implementation, np.ascontiguousarray(args[:, usable]), dictionary)
    return result


def _called(call: Call, implementation: Columns, args: Words, dictionary: Dictionary) -> Words:
    given = Schema(tuple(ColumnDef(f"${i}", arg.type, False) for i, arg in enumerate(call.args)))
    taken = Schema((ColumnDef("result", call.type),))
    rows = args.shape[1]
    try:
        array = implementation.function(*to_arrays(args, given, dictionary))
        return from_arrays([array], taken, dictionary, rows)[0]
    except Exception:
        if rows == 1:
            return np.full(1, ERROR, dtype=np.int64)
        single = (np.ascontiguousarray(args[:, [row]]) for row in range(rows))
        return np.concatenate([_called(call, implementation, one, dictionary) for one in single])
