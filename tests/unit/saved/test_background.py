"""Checkpoints by a child: it writes the epoch at which it was made; when it fails all is as it was."""

import errno
import os
import random
import signal
from pathlib import Path

import pytest

from kpg.runtime.checkpoint.checkpointer import BackgroundCheckpointer, CheckpointStore
from kpg.runtime.checkpoint.worker_state import capture, capture_leaves
from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.files import Disk, Files
from kpg.runtime.storage.packs import Manifest, read_manifest
from kpg.runtime.worker.worker import Worker
from tests.model.disk import Sim
from tests.properties.dataflows import DATAFLOWS, SCHEMA
from tests.properties.test_checkpoints import opened
from tests.properties.test_saved import change, rows, worker_with

PLANS = {name: DATAFLOWS[name][0] for name in ("join and reduce", "min", "distinct and threshold")}
TABLES = {"a": (1, SCHEMA), "b": (2, SCHEMA)}


class Case:
    """A worker with a history, and its checkpoints."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.rng = random.Random(0)
        self.worker = worker_with({"a": SCHEMA, "b": SCHEMA})
        for name, plan in PLANS.items():
            self.worker.install(name, plan)
        self.keeper = CheckpointStore(files, 5)
        self.done: list[Manifest] = []
        self.background = BackgroundCheckpointer(self.keeper, files, self.done.append)
        self.go_on()

    def go_on(self) -> None:
        for _ in range(3):
            change(self.rng, self.worker, 6, 40)
            self.worker.step()

    def begin(self, *, aside: bool = True) -> None:
        self.background.begin(capture_leaves(self.worker), self.worker.epoch, 1, in_background=aside)

    def again(self) -> Worker:
        return opened(self.files, TABLES, PLANS)[0]


def test_what_comes_while_it_is_written_is_not_in_it(tmp_path: Path) -> None:
    case = Case(Disk(tmp_path))
    for _ in range(3):
        epoch, expected = case.worker.epoch, {name: rows(case.worker, name) for name in PLANS}
        case.begin()
        assert case.background.is_busy
        case.go_on()
        case.background.poll(wait=True)
        assert not case.background.is_busy
        assert case.done[-1].checkpoint is not None and case.done[-1].checkpoint.epoch == epoch
        other = case.again()
        assert other.epoch == epoch
        assert {name: rows(other, name) for name in PLANS} == expected
    assert [one.segment for one in case.done] == [1, 1, 1]


def test_a_child_that_fails_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(Disk(tmp_path))
    case.begin()
    case.background.poll(wait=True)
    before = sorted(one.name for one in tmp_path.iterdir())

    def full(self: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("kpg.runtime.storage.packs.PackWriter.finish", full)
        case.go_on()
        case.begin()
        case.background.poll(wait=True)
    assert case.background.failure == "[Errno 28] No space left on device"
    assert str(case.background.make_error()).startswith("no checkpoint could be made: [Errno 28]")
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    assert len(case.done) == 1 and read_manifest(case.files) == case.done[0]
    case.begin()
    case.background.poll(wait=True)
    assert case.background.failure == ""
    assert {name: rows(case.again(), name) for name in PLANS} == {
        name: rows(case.worker, name) for name in PLANS
    }


def test_a_child_that_is_killed_has_written_nothing_that_counts(tmp_path: Path) -> None:
    case = Case(Disk(tmp_path))
    case.begin()
    writing = case.background._process
    assert writing is not None
    os.kill(writing._pid, signal.SIGKILL)
    case.background.poll(wait=True)
    # It may have been done already.
    if not case.done:
        assert case.background.failure == "the process that wrote it was killed"
        assert list(tmp_path.iterdir()) == []
    case.begin()
    case.background.poll(wait=True)
    assert case.done


def test_somebody_else_waited_for_the_child(tmp_path: Path) -> None:
    case = Case(Disk(tmp_path))
    case.begin()
    writing = case.background._process
    assert writing is not None
    os.waitpid(writing._pid, 0)
    case.background.poll(wait=True)
    assert case.done and case.background.failure == ""
    case.begin()
    writing = case.background._process
    assert writing is not None
    os.kill(writing._pid, signal.SIGKILL)
    os.waitpid(writing._pid, 0)
    case.background.poll(wait=True)
    assert not case.background.is_busy
    assert {name: rows(case.again(), name) for name in PLANS} == {
        name: rows(case.worker, name) for name in PLANS
    }


def test_where_no_process_can_be_copied_this_one_writes() -> None:
    case = Case(Sim())
    case.begin()
    assert not case.background.is_busy
    assert len(case.done) == 1


def test_an_error_of_this_process_is_raised() -> None:
    sim = Sim()
    case = Case(sim)
    case.begin(aside=False)
    before = sorted(sim.names)
    case.go_on()
    for number in range(1, 14):
        start = sim.count
        sim.fails = lambda count, what, at=start + number: errno.EIO if count == at else 0  # type: ignore[misc]
        try:
            case.begin(aside=False)
        except OperationalError as error:
            assert "no checkpoint could be made: [Errno 5]" in str(error)
            if not sim.done[-1].startswith("sync folder"):
                assert sorted(sim.names) == before
        before = sorted(sim.names)
        sim.fails = lambda count, what: 0
        assert {name: rows(case.again(), name) for name in PLANS}
    case.begin(aside=False)
    assert {name: rows(case.again(), name) for name in PLANS} == {
        name: rows(case.worker, name) for name in PLANS
    }


def test_a_child_that_was_stopped_writes_for_nobody(tmp_path: Path) -> None:
    """It goes on when somebody else has the folder: what it writes has a name of its own."""
    case = Case(Disk(tmp_path))
    case.begin(aside=False)
    manifest = read_manifest(case.files)
    assert manifest is not None and manifest.checkpoint is not None
    stopped, other = CheckpointStore(case.files, 5), CheckpointStore(case.files, 5)
    for keeper in (stopped, other):
        keeper.open(manifest.checkpoint)
    early = stopped.prepare(capture(case.worker), case.worker.epoch, 1)
    other.remove_unreferenced()
    case.go_on()
    job = other.prepare(capture(case.worker), case.worker.epoch, 1)
    other.write(job)
    with pytest.raises(FileExistsError):
        stopped.write(early)
    stopped.write(stopped.prepare(capture(case.worker), 1, 1))
    found = other.adopt(job).checkpoint
    assert found is not None and found.epoch == job.epoch
    assert {name: rows(case.again(), name) for name in PLANS} == {
        name: rows(case.worker, name) for name in PLANS
    }
    other.remove_unreferenced()
    assert sorted(os.listdir(tmp_path)) == ["manifest", *(f"pack-{one.number:08}" for one in found.packs)]


def test_the_end_of_a_checkpoint_that_nobody_waits_for(tmp_path: Path) -> None:
    case = Case(Disk(tmp_path))
    case.begin()
    assert case.background._process is not None
    child = case.background._process._pid
    before = sorted(one.name for one in tmp_path.iterdir() if one.name.startswith("manifest"))
    case.background.stop()
    assert not case.background.is_busy
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert before == [] and case.done == []


def test_no_descriptor_is_left_where_there_is_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(Disk(tmp_path))
    descriptors: list[int] = []
    pipe = os.pipe

    def piped() -> tuple[int, int]:
        found = pipe()
        descriptors.extend(found)
        return found

    def no_process() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "pipe", piped)
    monkeypatch.setattr(os, "fork", no_process)
    with pytest.raises(OperationalError, match="temporarily unavailable"):
        case.begin()
    assert len(descriptors) == 2
    for one in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(one)


def test_a_manifest_that_took_its_name_though_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packs are not removed: it is what counts when the folder is opened."""
    sim = Sim()
    case = Case(sim)
    rename = sim.rename

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sim, "rename", renamed)
    with pytest.raises(OperationalError, match="no checkpoint could be made"):
        case.begin(aside=False)
    assert {name: rows(case.again(), name) for name in PLANS} == {
        name: rows(case.worker, name) for name in PLANS
    }


def test_what_another_checkpoint_has_written_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that was killed has left no manifest; one that could not be removed is an earlier one's."""
    case = Case(Disk(tmp_path))
    case.keeper.write(case.keeper.prepare(capture_leaves(case.worker), case.worker.epoch, 1))
    case.go_on()
    monkeypatch.setattr(CheckpointStore, "write", lambda *_: signal.pause())
    case.begin()
    writing = case.background._process
    assert writing is not None
    os.kill(writing._pid, signal.SIGKILL)
    os.waitpid(writing._pid, 0)  # somebody else waits for it
    case.background.poll(wait=True)
    assert case.background.failure.endswith("was not written") and not case.done
