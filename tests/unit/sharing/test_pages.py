"""A file of large pages where one is to be had, and none where not."""

import os
import subprocess
import sys

import pytest

from kpg.runtime.cluster import huge_pages
from kpg.runtime.cluster.shared_memory import SharedMemory


def test_a_large_file_is_a_file_without_a_name() -> None:
    file = huge_pages.open_huge_page_file()
    if file is not None:
        os.ftruncate(file, 1 << 41)
        os.pwrite(file, b"x", 1 << 40)
        assert os.pread(file, 2, 1 << 40) == b"x\0" and os.fstat(file).st_nlink == 0
        os.close(file)


def test_the_helper_needs_no_installed_package() -> None:
    program = f"import runpy; runpy.run_path({huge_pages.__file__!r}, run_name='helper')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages.sys, "executable", "/nowhere")
    assert huge_pages.open_huge_page_file() is None
    memory = SharedMemory()
    memory.words(memory.allocate(8), 1)[0] = 5
    memory.close()
    monkeypatch.setattr(huge_pages.sys, "executable", "/bin/false")
    assert huge_pages.open_huge_page_file() is None
