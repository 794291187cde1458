"""Tables and expressions of a worker, by name."""

import numpy as np
import pytest

from kpg.runtime.errors import DataError, IntegrityError, InternalError
from kpg.runtime.plan import Mfp, Plan, Source
from kpg.runtime.scalar import Call, Column, Literal
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, ColumnDef, Schema
from kpg.runtime.worker.worker import MAX_COMPILED, Worker

SCHEMA = Schema((ColumnDef("a", BIGINT, nullable=False), ColumnDef("b", BIGINT)), (0,))


@pytest.fixture
def worker() -> Worker:
    worker = Worker()
    worker.create_table("t", SCHEMA)
    worker.tables.insert("t", np.array([[1, 2, 3], [10, 20, 30]]))
    worker.step()
    return worker


def test_rows_come_and_go(worker: Worker) -> None:
    assert worker.tables.insert("t", np.array([[5], [50]])).tolist() == [3]
    worker.tables.delete("t", np.array([1]))
    assert worker.tables.count("t") == 3 and worker.tables.has_pending
    assert worker.tables.scan("t").tolist() == [[1, 3, 5], [10, 30, 50]]
    assert worker.tables.scan("t", (1,)).tolist() == [[10, 30, 50]]
    assert worker.tables.scan("t", (), committed=True).shape == (0, 3)
    assert worker.tables.scan("t", committed=True).tolist() == [[1, 2, 3], [10, 20, 30]]
    worker.tables.rollback()
    assert worker.tables.scan("t").tolist() == [[1, 2, 3], [10, 20, 30]] and not worker.tables.has_pending


def test_rows_are_found(worker: Worker) -> None:
    assert worker.tables.find("t", np.array([[3, 4]])).tolist() == [2, -1]
    assert worker.tables.match("t", np.array([[3, 3], [30, 31]])).tolist() == [2, -1]
    assert worker.tables.fetch("t", np.array([2, 0])).tolist() == [[3, 1], [30, 10]]


def test_what_is_refused_changes_nothing(worker: Worker) -> None:
    with pytest.raises(IntegrityError, match=r"duplicate key in table t: \(a\) = \(1\) exists already"):
        worker.tables.insert("t", np.array([[7, 1], [0, 0]]))
    with pytest.raises(IntegrityError, match="table t has no row 7 to delete"):
        worker.tables.delete("t", np.array([0, 7]))
    assert worker.tables.count("t") == 3 and not worker.tables.has_pending


def test_expressions_are_evaluated(worker: Worker) -> None:
    total = Call("add", (Column(0, BIGINT), Column(1, BIGINT)), BIGINT)
    positive = Call("gt", (Column(0, BIGINT), Literal(0, BIGINT)), BOOLEAN)
    rows = np.array([[1, -1, 2], [1, 1, 2**63 - 2]])
    out, kept = worker.evaluate(Mfp((positive,), (Column(1, BIGINT),)), rows)
    assert kept is not None and (out.tolist(), kept.tolist()) == ([[1, 2**63 - 2]], [0, 2])
    assert worker.evaluate(Mfp((), (total,)), rows[:, :2].copy())[0].tolist() == [[2, 0]]
    with pytest.raises(DataError):
        worker.evaluate(Mfp((), (total,)), rows)


def test_no_more_programs_are_kept_than_said(worker: Worker) -> None:
    rows = np.array([[1]])
    for number in range(2 * MAX_COMPILED):
        assert worker.evaluate(Mfp((), (Literal(number, INTEGER),)), rows)[0].tolist() == [[number]]
        assert len(worker._compiled_mfps) <= MAX_COMPILED


def test_an_installation_is_uninstalled_once_and_not_its_namesake(worker: Worker) -> None:
    plan = Plan((Source("t"),), 0)
    first = worker.install("v", plan)
    worker.uninstall(first)
    second = worker.install("v", plan)
    worker.uninstall(first)
    assert worker.views == {"v": second}
    assert second.rows()[0].tolist() == [[0, 1, 2]] and not second.is_final()
    assert second.ranks() is None and second.first_rounds() is None
    with pytest.raises(InternalError, match="the output of v is not arranged"):
        second.rows_with_prefix((1,))


def test_an_input_that_is_gone(worker: Worker) -> None:
    handle = worker.create_input("i", 1)
    assert (handle.time, handle.user_time, handle.is_open) == (2, 2, True)
    handle.advance_to(5)
    assert (handle.time, handle.user_time) == (5, 5)
    handle.stage((7, 5, 1))
    handle.close()
    assert not handle.is_open and not worker.poll_ended_inputs()
    worker.drop_input(handle.identity)
    assert handle.clear() == 0
    with pytest.raises(InternalError, match="input nowhere is gone"):
        worker.drop_input("nowhere")
