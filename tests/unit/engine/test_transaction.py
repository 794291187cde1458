"""When changes are committed, and when they are thrown away."""

import pytest

import kpg
from kpg.runtime.errors import DataError, InterfaceError
from kpg.session.transaction import State, Transactions


class FakeWorker:
    """Notes what it is asked to do; fails the next step on demand."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails = False

    def step(self) -> None:
        if self.fails:
            raise DataError("overflow")
        self.calls.append("step")

    def close_epoch(self) -> None:
        self.calls.append("close")

    def rollback(self) -> None:
        self.calls.append("rollback")

    def finish_constraints(self, *, committing: bool) -> None:
        """There are no foreign keys."""

    def savepoint(self) -> int:
        return len(self.calls)

    def rollback_to(self, point: int) -> None:
        self.calls.append(f"rollback to {point}")


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture
def transactions(worker: FakeWorker) -> Transactions:
    return Transactions(worker, lambda: worker.calls.append("told"))


def change(transactions: Transactions) -> None:
    with transactions.statement(changes=True):
        pass


def test_statement_commits_by_itself(worker: FakeWorker, transactions: Transactions) -> None:
    change(transactions)
    assert worker.calls == ["step", "told"]


def test_query_commits_nothing(worker: FakeWorker, transactions: Transactions) -> None:
    with transactions.statement(changes=False):
        pass
    assert worker.calls == []


def test_failing_statement_is_rolled_back(worker: FakeWorker, transactions: Transactions) -> None:
    with pytest.raises(DataError), transactions.statement(changes=True):
        raise DataError("division by zero")
    assert worker.calls == ["rollback"]
    assert transactions.state is State.NONE


def test_transaction_is_one_step(worker: FakeWorker, transactions: Transactions) -> None:
    with transactions.transaction():
        change(transactions)
        change(transactions)
        assert worker.calls == []
    assert worker.calls == ["step", "told"]


def test_exception_rolls_the_transaction_back(worker: FakeWorker, transactions: Transactions) -> None:
    with pytest.raises(KeyboardInterrupt), transactions.transaction():
        change(transactions)
        raise KeyboardInterrupt
    assert worker.calls == ["rollback"]
    assert transactions.is_idle


def test_after_an_error_the_rest_of_the_transaction_is_refused(
    worker: FakeWorker, transactions: Transactions
) -> None:
    transactions.begin()
    with pytest.raises(DataError), transactions.statement(changes=True):
        raise DataError("overflow")
    with pytest.raises(InterfaceError, match="was rolled back by an earlier error"):
        change(transactions)
    with pytest.raises(InterfaceError, match="was rolled back by an earlier error"):
        transactions.commit()
    assert transactions.is_idle
    assert worker.calls == ["rollback"]


def test_swallowed_error_is_raised_at_the_end_of_the_block(
    worker: FakeWorker, transactions: Transactions
) -> None:
    def swallowing() -> None:
        with pytest.raises(DataError), transactions.statement(changes=True):
            raise DataError("overflow")

    with pytest.raises(InterfaceError, match="was rolled back"), transactions.transaction():
        swallowing()
    assert transactions.is_idle
    assert "step" not in worker.calls


def test_failing_commit_leaves_no_transaction(worker: FakeWorker, transactions: Transactions) -> None:
    worker.fails = True
    with pytest.raises(DataError), transactions.transaction():
        change(transactions)
    assert transactions.is_idle
    assert worker.calls == ["rollback"]


def test_transactions_do_not_nest(transactions: Transactions) -> None:
    with transactions.transaction(), pytest.raises(InterfaceError, match="a transaction is already open"):
        transactions.begin()
    assert transactions.is_idle


@pytest.mark.parametrize("name", ["commit", "rollback"])
def test_ending_what_was_not_begun(transactions: Transactions, name: str) -> None:
    with pytest.raises(InterfaceError, match="there is no transaction"):
        getattr(transactions, name)()


def test_rollback_undoes_and_ends(worker: FakeWorker, transactions: Transactions) -> None:
    transactions.begin()
    change(transactions)
    transactions.rollback()
    assert worker.calls == ["rollback"]
    assert transactions.is_idle


def test_batch_closes_epochs_and_steps_once(worker: FakeWorker, transactions: Transactions) -> None:
    with transactions.batch():
        change(transactions)
        with transactions.transaction():
            change(transactions)
            change(transactions)
    assert worker.calls == ["close", "close", "step", "told"]


def test_error_in_a_batch_rolls_all_of_it_back(worker: FakeWorker, transactions: Transactions) -> None:
    with pytest.raises(DataError), transactions.batch():
        change(transactions)
        with transactions.statement(changes=True):
            raise DataError("overflow")
    assert worker.calls[:2] == ["close", "rollback"]
    assert "step" not in worker.calls
    assert transactions.is_idle


def test_batch_must_not_end_inside_a_transaction(worker: FakeWorker, transactions: Transactions) -> None:
    with pytest.raises(InterfaceError, match="the batch ends inside a transaction"), transactions.batch():
        transactions.begin()
        change(transactions)
    assert transactions.is_idle
    assert "step" not in worker.calls


def test_batch_inside_a_transaction_is_refused(transactions: Transactions) -> None:
    transactions.begin()
    with pytest.raises(InterfaceError, match="a batch cannot start"), transactions.batch():
        pass


def test_a_view_of_a_view_sees_the_transactions_own_changes() -> None:
    db = kpg.connect()
    db.sql("create table t (a integer); create materialized view v as select a from t")
    db.sql("create materialized view w as select a + 1 as b from v")
    with db.transaction():
        db.insert("t", [(1,)])
        assert db.query("select * from w").fetchall() == [(2,)]


def test_savepoints(transactions: Transactions, worker: FakeWorker) -> None:
    with pytest.raises(InterfaceError, match="SAVEPOINT can only be used in transaction blocks"):
        transactions.savepoint("a")
    transactions.begin()
    transactions.savepoint("a")
    transactions.savepoint("b")
    transactions.rollback_to("A")
    assert worker.calls == ["rollback to 0"]
    with pytest.raises(InterfaceError, match='savepoint "b" does not exist'):
        transactions.rollback_to("b")
    transactions.release_savepoint("a")
    transactions.commit()
    assert worker.calls[:2] == ["rollback to 0", "step"]


def test_an_error_after_a_savepoint_can_be_returned_from(
    transactions: Transactions, worker: FakeWorker
) -> None:
    transactions.begin()
    transactions.savepoint("a")
    with pytest.raises(ValueError), transactions.statement(changes=True):
        raise ValueError
    assert transactions.state is State.FAILED
    transactions.rollback_to("a")
    assert transactions.state is State.OPEN
    transactions.commit()
    assert worker.calls[:3] == ["rollback to 0", "rollback to 0", "step"]


def test_rollback_after_a_savepoint_undoes_all(transactions: Transactions, worker: FakeWorker) -> None:
    transactions.begin()
    transactions.savepoint("a")
    transactions.rollback()
    assert worker.calls[0] == "rollback" and transactions.is_idle
