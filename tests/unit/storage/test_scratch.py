"""Folders for a while: those of processes that were killed go when the next one is made, no others."""

import subprocess
import sys
from pathlib import Path

from kpg.runtime.storage.files import OWNER_FILE, ScratchFolder, remove_abandoned

ROOT = Path(__file__).parents[3]
MADE = (
    "import sys, time; from kpg.runtime.storage.files import ScratchFolder; "
    "one = ScratchFolder('a-', sys.argv[1]);"
)


def started(place: Path, then: str) -> subprocess.Popen[str]:
    """Another process that has a folder in a place, and has said so."""
    command = [sys.executable, "-c", f"{MADE} print(one.name, flush=True); {then}", str(place)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert Path(process.stdout.readline().strip(), OWNER_FILE).exists()
    return process


def test_it_is_gone_at_the_end(tmp_path: Path) -> None:
    with ScratchFolder("a-", str(tmp_path)) as name:
        (Path(name) / "file").write_text("x")
        assert [one.name for one in tmp_path.iterdir()] == [Path(name).name]
    assert list(tmp_path.iterdir()) == []
    one = ScratchFolder("a-", str(tmp_path))
    one.cleanup()
    one.cleanup()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_goes_with_the_next_one(tmp_path: Path) -> None:
    living, killed = started(tmp_path, "time.sleep(3600)"), started(tmp_path, "time.sleep(3600)")
    for name in ("a-mine", "b-other"):
        (tmp_path / name).mkdir()
    (tmp_path / "a-file").write_text("x")
    killed.kill()
    killed.communicate()
    assert len(list(tmp_path.iterdir())) == 5
    with ScratchFolder("a-", str(tmp_path)) as name:
        there = {one.name for one in tmp_path.iterdir()} - {"a-mine", "b-other", "a-file", Path(name).name}
        assert len(there) == 1
        assert (tmp_path / there.pop() / OWNER_FILE).exists()
    living.kill()
    living.communicate()
    remove_abandoned(tmp_path, "a-")
    assert {one.name for one in tmp_path.iterdir()} == {"a-mine", "b-other", "a-file"}


def test_another_machines_folder_is_let_be(tmp_path: Path) -> None:
    (tmp_path / "a-there").mkdir()
    (tmp_path / "a-there" / OWNER_FILE).write_text("another machine")
    with ScratchFolder("a-", str(tmp_path)):
        assert (tmp_path / "a-there").exists()
