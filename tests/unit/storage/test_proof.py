"""What is said to have been synced was, whatever ends the process or the power."""

import errno

import numpy as np
import pytest

from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.log import (
    COMMITTED_NAME,
    SLOT,
    SLOT_OFFSETS,
    CommittedFile,
    Log,
    Segment,
    read_committed,
)
from tests.model.disk import PowerCut, Sim


def test_it_is_read_again() -> None:
    sim = Sim()
    assert read_committed(sim, 99) == -1
    proof = CommittedFile.open(sim, 99, -1)
    assert read_committed(sim, 99) == -1
    for number in (3, 4, 9, 5):
        proof.advance_to(number)
    assert (proof.number, read_committed(sim, 99)) == (9, 9)
    again = CommittedFile.open(sim, 99, 9)
    again.advance_to(10)
    assert read_committed(sim, 99) == 10
    sim.sync()
    again.retract_to(7)
    assert read_committed(sim.after_cut(1), 99) == 7
    with pytest.raises(DamagedError, match="belongs to another database"):
        read_committed(sim, 98)


def test_every_flipped_bit_is_found() -> None:
    sim = Sim()
    proof = CommittedFile.open(sim, 99, -1)
    proof.advance_to(5)
    proof.advance_to(6)
    whole = bytes(sim.names[COMMITTED_NAME].now)
    for place in range(len(whole)):
        for bit in range(8):
            sim.names[COMMITTED_NAME].now[place] ^= 1 << bit
            with pytest.raises(DamagedError, match="committed is "):
                read_committed(sim, 99)
            sim.names[COMMITTED_NAME].now[:] = whole


@pytest.mark.parametrize("place", SLOT_OFFSETS)
def test_one_slot_is_enough(place: int) -> None:
    """The other may never have come to the disk."""
    sim = Sim()
    proof = CommittedFile.open(sim, 99, -1)
    proof.advance_to(5)
    proof.advance_to(6)
    sim.names[COMMITTED_NAME].now[place : place + SLOT.size] = bytes(SLOT.size)
    assert read_committed(sim, 99) in (5, 6)


def test_it_says_less_where_it_cannot_be_written() -> None:
    sim = Sim()
    proof = CommittedFile.open(sim, 99, -1)
    proof.advance_to(5)
    sim.fails = lambda count, what: errno.ENOSPC
    proof.advance_to(6)
    with pytest.raises(OSError, match="ENOSPC"):
        proof.retract_to(4)
    sim.fails = lambda count, what: 0
    assert read_committed(sim, 99) in (4, 5)
    sim.names.clear()
    sim.fails = lambda count, what: errno.ENOSPC if what.startswith("create") else 0
    nothing = CommittedFile.open(sim, 99, -1)
    nothing.advance_to(3)
    nothing.retract_to(1)
    nothing.sync()
    nothing.close()
    assert read_committed(sim, 99) == -1


def test_it_never_says_more_than_the_log_has() -> None:
    """Whatever the power takes, with records that are cut back in between."""
    for seed in range(400):
        sim, random = Sim(seed), np.random.default_rng(seed)
        sim.cut_at = 6 + seed % 60
        try:
            log = Log.create(sim, 3, 99, 0)
            log.committed_file = CommittedFile.open(sim, 99, -1)
            for _ in range(20):
                mark = log.position()
                log.append(1, [bytes(8 * int(random.integers(200)))])
                if random.random() < 0.7:
                    log.sync()
                if random.random() < 0.3:
                    log.truncate_to(mark)
        except PowerCut:
            pass
        for found in (sim.after_cut(seed), sim.after_kill()):
            if "log-00000003" in found.names:
                records = list(Segment(found, 3, 99).records())
                assert read_committed(found, 99) < len(records)
