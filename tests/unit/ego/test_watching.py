"""Labels are looked at after work, and the seldomer the less they change."""

from kpg.runtime.ego.decisions import Watching


def test_it_is_due_after_many_writes_and_reads_and_time_spent_on_them() -> None:
    work = Watching()
    work.seen = 1 << 17
    work.busy = 0.001
    assert work.due
    work.compared(0.01, 0.02)
    assert not work.due and work.patience == 25 * 0.02
    work.seen, work.busy = 1 << 17, 0.4
    assert not work.due
    work.busy = 0.6
    assert work.due


def test_what_does_not_change_is_looked_at_less_often() -> None:
    work = Watching()
    waits = []
    for _ in range(4):
        work.compared(0.0, 0.02)
        waits.append(work.waits)
    assert waits == [50, 100, 200, 250]  # that is 5 s
    work.compared(0.01, 0.02)
    assert work.waits == 25


def test_when_much_has_changed_it_is_looked_at_again_soon() -> None:
    work = Watching()
    work.compared(0.1, 0.02)
    assert (work.waits, work.patience) == (8, 8 * 0.02)
    work.compared(0.01, 0.02)
    assert work.waits == 25


def test_a_decision_by_few_is_soon_looked_at() -> None:
    work = Watching()
    work.decided(100)
    assert work.patience == 0.0
    work.decided(1 << 17)
    assert work.patience == 2.5


def test_after_a_shift_all_labels_are_decided() -> None:
    work = Watching()
    shifted = []
    for changed in (0.01, 0.03, 0.03, 0.0):
        work.compared(changed, 0.02)
        shifted.append(work.shifted)
    assert shifted == [False, True, True, False]
    work.compared(0.03, 0.02)
    work.decided(1 << 17)
    assert (work.shifted, work.waits) == (False, 25)
