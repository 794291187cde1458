"""Files of a folder, and of the folder that tests have: the same, but for what a power cut takes."""

import errno
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kpg.runtime.storage.files import PAGE, Disk, Files, _copy_written_parts, make_folder
from tests.model.disk import PowerCut, Sim


@pytest.fixture(params=["disk", "sim"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Disk(tmp_path) if request.param == "disk" else Sim()


def test_written_in_pieces_and_read(files: Files) -> None:
    file = files.create("a")
    file.write(0, [b"hello ", memoryview(b"world"), b""])
    file.write(6, [b"W"])
    file.write(13, [b"x"])
    assert file.read(0, 100) == b"hello World\0\0x"
    assert file.read(3, 2) == b"lo"
    assert file.size() == 14
    file.truncate(5)
    file.sync()
    file.close()
    file.close()
    assert files.open("a").read(0, 10) == b"hello"


def test_many_pieces(files: Files) -> None:
    file = files.create("a")
    file.write(0, [bytes([n % 256]) for n in range(2000)])
    assert file.read(0, 3000) == bytes(n % 256 for n in range(2000))


def test_whole_pages_and_others_are_one_file(files: Files) -> None:
    """What goes past the system's memory, and what does not, whichever came first."""
    file = files.create("a", direct=True)
    pages = memoryview(mmap.mmap(-1, 3 * PAGE))
    pages[:] = bytes(n % 251 for n in range(3 * PAGE))
    file.write(0, [pages[: 2 * PAGE]])
    file.write(PAGE - 2, [b"over the border"])
    file.write(PAGE, [pages[PAGE : 2 * PAGE]])
    file.write(8, [pages[:PAGE]])  # pages of memory, not of the file
    file.write(2 * PAGE, [b"piece", pages[5:]])
    file.sync()
    expected = (
        bytes(pages[:8])
        + bytes(pages[:PAGE])
        + bytes(pages[PAGE + 8 : 2 * PAGE])
        + b"piece"
        + bytes(pages[5:])
    )
    assert (file.size(), file.read(0, 6 * PAGE)) == (5 * PAGE, expected)
    file.truncate(PAGE + 5)
    file.close()
    file.close()
    again = files.open("a", writing=True, direct=True)
    again.write(PAGE, [pages[PAGE : 2 * PAGE]])
    assert again.read(PAGE - 1, 9) == expected[PAGE - 1 : PAGE] + bytes(pages[PAGE : PAGE + 8])


def test_a_way_past_memory_that_is_none_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems open a file for it, and then refuse each write."""
    tried = list[int]()

    def refuse(descriptor: int, data: memoryview, offset: int) -> int:
        tried.append(offset)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "pwrite", refuse)
    disk, pages = Disk(tmp_path), memoryview(mmap.mmap(-1, 2 * PAGE))
    pages[:] = bytes(n % 251 for n in range(2 * PAGE))
    for name in ("a", "b"):
        file = disk.create(name, direct=True)
        file.write(0, [pages])
        file.write(2 * PAGE, [pages[:PAGE]])
        assert file.read(0, 4 * PAGE) == bytes(pages) + bytes(pages[:PAGE])
        file.close()
        file.close()
    assert tried == [0]


def test_names(files: Files) -> None:
    files.create("b").write(0, [b"b"])
    files.create("a")
    assert files.list() == ["a", "b"]
    with pytest.raises(FileExistsError):
        files.create("a")
    files.rename("b", "a")
    files.sync()
    assert files.list() == ["a"]
    assert files.open("a").read(0, 9) == b"b"
    files.remove("a")
    with pytest.raises(FileNotFoundError):
        files.open("a")
    assert files.list() == []


def test_a_map_is_ones_own_to_write_to(files: Files) -> None:
    file = files.create("a")
    file.write(0, [b"abc"])
    mapped = files.map("a")
    mapped[0] = ord("x")
    assert mapped.tobytes() == b"xbc"
    assert file.read(0, 3) == b"abc"
    files.create("empty")
    assert files.map("empty").shape == (0,)


def test_a_folder_is_held_by_one(files: Files) -> None:
    first = files.lock("lock", "process 7")
    assert not isinstance(first, str)
    assert files.lock("lock", "process 8") == "process 7"
    first.release()
    first.release()
    assert not isinstance(files.lock("lock", "process 8"), str)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom kpg.runtime.storage.files import PAGE, Disk\n"
        f"lock = Disk({str(tmp_path)!r}).lock('lock', 'the other')\n"
        "print('held', flush=True)\nsys.stdin.read()"
    )
    held = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert held.stdout is not None
    assert held.stdout.readline() == b"held\n"
    assert Disk(tmp_path).lock("lock", "me") == "the other"
    held.kill()
    held.wait()
    held.communicate()
    assert not isinstance(Disk(tmp_path).lock("lock", "me"), str)


def test_what_is_held_is_not_held_by_children(tmp_path: Path) -> None:
    lock = Disk(tmp_path).lock("lock", "me")
    assert not isinstance(lock, str)
    assert not any(map(os.get_inheritable, lock._descriptors))  # type: ignore[attr-defined]


def test_a_cut_takes_what_was_not_synced() -> None:
    sim = Sim()
    file = sim.create("a")
    file.write(0, [b"x" * 1024])
    file.sync()
    sim.sync()
    file.write(0, [b"y" * 1024])
    sim.create("b")
    found = [sim.after_cut(seed) for seed in range(60)]
    contents = {bytes(one.names["a"].now) for one in found}
    x, y = b"x" * 512, b"y" * 512
    assert contents == {x + x, x + y, y + x, y + y}
    assert {"b" in one.names for one in found} == {True, False}
    assert bytes(sim.after_kill().names["a"].now) == y + y


def test_a_sector_is_never_of_two_moments() -> None:
    """A failed write within one sector is whole or not at all, before and after a cut."""
    sim = Sim()
    file = sim.create("a")
    file.write(0, [b"x" * 512])
    file.sync()
    sim.sync()
    file.write(0, [b"y" * 512])
    sim.fails = lambda count, what: 28
    with pytest.raises(OSError, match="ENOSPC"):
        file.write(0, [b"z" * 512])
    now = bytes(file.node.now)
    part = now.count(b"z")
    assert now == b"z" * part + b"y" * (512 - part)
    assert part in (0, 512)
    found = {bytes(sim.after_cut(seed).names["a"].now) for seed in range(60)}
    assert found == {b"x" * 512, b"y" * 512, now}


def test_a_rename_without_a_sync_may_not_be() -> None:
    sim = Sim()
    sim.create("new").sync()
    sim.sync()
    sim.rename("new", "old")
    assert {tuple(sim.after_cut(seed).names) for seed in range(60)} >= {("new",), ("old",)}


def test_a_failed_sync_may_have_lost_everything() -> None:
    sim = Sim()
    file = sim.create("a")
    sim.sync()
    file.write(0, [b"x"])
    sim.fails = lambda count, what: 5 if what == "sync a" else 0
    with pytest.raises(OSError, match="EIO"):
        file.sync()
    sim.fails = lambda count, what: 0
    file.sync()
    assert file.read(0, 1) == b"x"
    assert bytes(sim.after_cut(0).names["a"].now) in (b"", b"x", b"\0")


def test_the_power_goes_at_any_operation() -> None:
    sim = Sim()
    sim.cut_at = 2
    sim.create("a")
    sim.list()
    with pytest.raises(PowerCut):
        sim.list()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder whose files are in memory."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def with_a_hole(folder: Path) -> Disk:
    disk = Disk(folder)
    file = disk.create("a")
    file.write(0, [b"begin"])
    file.write(1 << 20, [b"end"])
    file.close()
    assert (folder / "a").stat().st_blocks == 2 * 4096 // 512
    return disk


def test_what_was_never_written_is_there_before_it_is_mapped(memory: Path) -> None:
    """Where files are in memory, reading it takes some, and a process that gets none is ended."""
    disk = with_a_hole(memory)
    mapped = disk.map("a")
    assert (memory / "a").stat().st_blocks * 512 >= (1 << 20) + 3
    assert mapped.shape == ((1 << 20) + 3,)
    assert (mapped[:5].tobytes(), int(mapped[5:-3].sum()), mapped[-3:].tobytes()) == (b"begin", 0, b"end")


def test_where_there_is_no_room_for_what_was_never_written_it_is_read(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    disk = with_a_hole(memory)
    monkeypatch.setattr(os, "posix_fallocate", full)
    mapped = disk.map("a")
    assert mapped.shape == ((1 << 20) + 3,)
    assert (mapped[:5].tobytes(), int(mapped[5:-3].sum()), mapped[-3:].tobytes()) == (b"begin", 0, b"end")
    assert (memory / "a").stat().st_blocks == 2 * 4096 // 512


def test_files_of_a_disk_keep_their_holes(tmp_path: Path) -> None:
    disk = with_a_hole(tmp_path)
    assert disk.map("a")[-3:].tobytes() == b"end"
    assert (tmp_path / "a").stat().st_blocks == 2 * 4096 // 512


def test_folders_that_are_made_have_their_names_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(Disk, "sync", lambda disk: synced.append(disk.where))
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert sorted(synced) == [str(tmp_path), str(tmp_path / "a")]
    assert (tmp_path / "a" / "b").is_dir()


def test_what_cannot_be_read_is_no_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose records were zeros would end there, without a word."""
    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 64)
    with path.open("rb") as file:
        found = _copy_written_parts(file.fileno(), 20000)
        assert found[:16384].tobytes() == path.read_bytes() and not found[16384:].any()

        def broken(descriptor: int, buffers: object, offset: int) -> int:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output error"):
            patch.setattr(os, "preadv", broken)
            _copy_written_parts(file.fileno(), 16384)
        monkeypatch.setattr(os, "preadv", lambda *_: 0)  # it is cut off between two calls
        assert not _copy_written_parts(file.fileno(), 16384).any()
