"""Clients of a server that run random transactions at the same time see nothing that their level forbids.

The check is checked first, by histories in which something is wrong.
"""

import pytest

from tests.model.anomalies import COMMITTED, REPEATABLE, SERIALIZABLE, Read, Transaction, anomalies
from tests.properties.isolation import LEVELS, history_of
from tests.unit.server.conftest import serving


def done(level: str, begun: float, ended: float, **more: object) -> Transaction:
    return Transaction(level, begun, ended, committed=True, **more)  # type: ignore[arg-type]


def wrong(history: list[Transaction], lists: dict[int, list[int]], sets: dict[int, list[int]]) -> str:
    return "; ".join(anomalies(history, lists, sets))


def test_a_lost_update() -> None:
    both = [done(REPEATABLE, 0, 2, appended=[(0, 1)]), done(REPEATABLE, 0, 2, appended=[(0, 2)])]
    assert wrong(both, {0: [1]}, {}) == "lost: (0, 2) of transaction 1 is in no list"


def test_what_was_never_committed_and_a_part_of_a_transaction() -> None:
    undone = Transaction(COMMITTED, 0, 1, appended=[(0, 1)])
    reader = done(COMMITTED, 0, 1, reads=[Read({0: (1,)})])
    assert "found (1,) in list 0, which became ()" in wrong([undone, reader], {0: []}, {})
    writer = done(COMMITTED, 0, 1, appended=[(0, 1), (0, 2)])
    assert "a part of transaction 0" in wrong([writer, reader], {0: [1, 2]}, {})


@pytest.mark.parametrize(("level", "allowed"), [(COMMITTED, True), (REPEATABLE, True), (SERIALIZABLE, False)])
def test_write_skew(level: str, allowed: bool) -> None:
    one = done(level, 0, 5, added=[(0, 1)], reads=[Read(sets={1: frozenset()}, begun=1)])
    other = done(level, 0, 5, added=[(1, 2)], reads=[Read(sets={0: frozenset()}, begun=1)])
    assert (not wrong([one, other], {}, {0: [1], 1: [2]})) == allowed


@pytest.mark.parametrize(
    ("level", "allowed"), [(COMMITTED, True), (REPEATABLE, False), (SERIALIZABLE, False)]
)
def test_a_read_that_is_not_repeated(level: str, allowed: bool) -> None:
    writer = done(REPEATABLE, 1, 2, added=[(0, 1)])
    reads = [Read(sets={0: frozenset()}, begun=0.5), Read(sets={0: frozenset({1})}, begun=3)]
    assert (not wrong([writer, done(level, 0, 4, reads=reads)], {}, {0: [1]})) == allowed


def test_one_answer_of_two_moments() -> None:
    """Half of a transaction in one statement, and a view that is behind its table."""
    writer = done(COMMITTED, 0, 2, added=[(0, 1)], appended=[(5, 2)])
    half = Read({5: (2,)}, {0: frozenset()}, begun=1)
    assert "comes before itself" in wrong([writer, done(COMMITTED, 0, 2, reads=[half])], {5: [2]}, {0: [1]})


def test_what_was_acknowledged_is_seen() -> None:
    writer = done(COMMITTED, 0, 1, added=[(0, 1)])
    late = Read(sets={0: frozenset()}, begun=2)
    assert "comes before itself" in wrong([writer, done(COMMITTED, 2, 3, reads=[late])], {}, {0: [1]})


@pytest.mark.parametrize("level", LEVELS)
def test_the_read_only_anomaly(level: str) -> None:
    """A deposit, a charge that has not seen it, and who has seen the deposit without the charge."""
    deposit = done(level, 0, 2, added=[(0, 1)])
    charge = done(level, 0, 5, added=[(1, 2)], reads=[Read(sets={0: frozenset()}, begun=0.5)])
    report = done(level, 3, 4, reads=[Read(sets={0: frozenset({1}), 1: frozenset()}, begun=3)])
    found = wrong([deposit, charge, report], {}, {0: [1], 1: [2]})
    assert ("comes before itself" in found) == (level == SERIALIZABLE)


@pytest.mark.parametrize("seed", range(4))
def test_clients_at_the_same_time(seed: int) -> None:
    levels = ((COMMITTED,), (REPEATABLE,), (SERIALIZABLE,), LEVELS)[seed]
    with serving() as running:
        met = history_of(running.dsn, seed, levels, 5, 25)
    assert met["committed"] > 20
