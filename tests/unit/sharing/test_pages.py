"""A file of large pages where one is to be had, and none where not."""

import os

import pytest

from kpg.runtime.cluster import shared_memory
from kpg.runtime.cluster.shared_memory import Memory


def test_a_large_file_is_a_file_without_a_name() -> None:
    file = shared_memory.large_file()
    if file is not None:
        os.ftruncate(file, 1 << 41)
        os.pwrite(file, b"x", 1 << 40)
        assert os.pread(file, 2, 1 << 40) == b"x\0" and os.fstat(file).st_nlink == 0
        os.close(file)


def test_workers_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory.sys, "executable", "/nowhere")
    assert shared_memory.large_file() is None
    memory = Memory()
    memory.words(memory.take(8), 1)[0] = 5
    memory.close()
    monkeypatch.setattr(shared_memory.sys, "executable", "/bin/false")
    assert shared_memory.large_file() is None
