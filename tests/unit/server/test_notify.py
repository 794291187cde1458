"""What a service manager is told."""

import socket
from pathlib import Path

import pytest

from kpg.server import process
from tests.waiting import PATIENCE


@pytest.mark.parametrize("abstract", [False, True])
def test_it_is_told_where_it_listens(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"@kpg {tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        process.notify_service_manager(process.READY)
        assert manager.recv(100) == b"READY=1"


def test_without_one_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    process.notify_service_manager(process.READY)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    process.notify_service_manager(process.STOPPING)
