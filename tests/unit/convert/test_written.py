"""Columns as what is written of their values."""

import numpy as np

import kpg
from kpg.runtime.convert.python_values import format_values
from kpg.runtime.types import BIGINT, NULL


def test_each_distinct_value_is_written_once() -> None:
    asked: list[int] = []

    def write(value: int) -> str:
        asked.append(value)
        return f"<{value}>"

    with kpg.connect() as db:
        words = np.array([7, NULL, 7, 8], np.int64)
        found = format_values(words, BIGINT, db.hub.engine.executor.dictionary, write)
    assert found == ["<7>", None, "<7>", "<8>"]
    assert asked == [7, 8]
