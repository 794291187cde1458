"""Long work tells whoever looks, and nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kpg.runtime import progress_report


@pytest.fixture
def told() -> Iterator[list[object]]:
    seen: list[object] = []

    @contextmanager
    def looker(what: str, unit: str) -> Iterator[progress_report.ProgressCallback]:
        seen.append((what, unit))

        def tell(done: int, total: int | None = None, note: str = "") -> None:
            seen.append((done, total, note))

        yield tell
        seen.append("over")

    progress_report.set_observer(looker)
    yield seen
    progress_report.set_observer(None)


def test_who_looks_is_told(told: list[object]) -> None:
    with progress_report.report_progress("loading t", "rows") as tell:
        tell(5)
        tell(9, 10, "t")
    assert told == [("loading t", "rows"), (5, None, ""), (9, 10, "t"), "over"]


def test_items_are_counted_as_they_are_asked_for(told: list[object]) -> None:
    assert list(progress_report.iterate_with_progress("ab", "opening", "commits")) == ["a", "b"]
    assert told == [("opening", "commits"), (0, 2, ""), (1, 2, ""), "over"]


def test_that_they_are_not_all_asked_for_is_the_end_too(told: list[object]) -> None:
    items = progress_report.iterate_with_progress("ab", "opening", "commits")
    assert next(items) == "a"
    items.close()
    assert told[:2] == [("opening", "commits"), (0, 2, "")]


def test_nobody_looks() -> None:
    progress_report.set_observer(None)
    assert not progress_report.is_observed()
    with progress_report.report_progress("loading t", "rows") as tell:
        tell(5, 10, "t")
