"""Labels are looked at after work, and the seldomer the less they change."""

from kpg.runtime.ego.decisions import Workload


def test_it_is_due_after_many_writes_and_reads_and_time_spent_on_them() -> None:
    work = Workload()
    work.visits = 1 << 17
    work.seconds = 0.001
    assert work.is_due
    work.record_check(0.01, 0.02)
    assert not work.is_due and work.check_after == 25 * 0.02
    work.visits, work.seconds = 1 << 17, 0.4
    assert not work.is_due
    work.seconds = 0.6
    assert work.is_due


def test_what_does_not_change_is_looked_at_less_often() -> None:
    work = Workload()
    waits = []
    for _ in range(4):
        work.record_check(0.0, 0.02)
        waits.append(work.check_factor)
    assert waits == [50, 100, 200, 250]  # that is 5 s
    work.record_check(0.01, 0.02)
    assert work.check_factor == 25


def test_when_much_has_changed_it_is_looked_at_again_soon() -> None:
    work = Workload()
    work.record_check(0.1, 0.02)
    assert (work.check_factor, work.check_after) == (8, 8 * 0.02)
    work.record_check(0.01, 0.02)
    assert work.check_factor == 25


def test_a_decision_by_few_is_soon_looked_at() -> None:
    work = Workload()
    work.record_decision(100)
    assert work.check_after == 0.0
    work.record_decision(1 << 17)
    assert work.check_after == 2.5


def test_after_a_shift_all_labels_are_decided() -> None:
    work = Workload()
    shifted = []
    for changed in (0.01, 0.03, 0.03, 0.0):
        work.record_check(changed, 0.02)
        shifted.append(work.has_shifted)
    assert shifted == [False, True, True, False]
    work.record_check(0.03, 0.02)
    work.record_decision(1 << 17)
    assert (work.has_shifted, work.check_factor) == (False, 25)
