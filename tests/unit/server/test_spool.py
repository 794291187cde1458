"""Contents on their way to a client, whatever their size."""

import errno
import tempfile

import pytest

import kpg
from kpg.server.subscribe import MAX_MEMORY_BYTES, Spool


def read(spool: Spool) -> list[object]:
    found: list[object] = []
    while (portion := spool.next()) is not None:
        found.append(portion)
    return found


@pytest.mark.parametrize("size", [0, 1, MAX_MEMORY_BYTES, 3 * MAX_MEMORY_BYTES])
def test_portions_come_back_in_their_order(size: int) -> None:
    portions: list[object] = [b"x" * size, [(b"1", None), (b"", b"\n\0")], b"", b"y" * size]
    spool = Spool(iter(portions))
    assert read(spool) == portions
    assert spool.next() is None


def test_nothing_is_nothing() -> None:
    assert read(Spool([])) == []


def test_small_contents_make_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    assert read(Spool([b"x" * 1000] * 100)) == [b"x" * 1000] * 100


def test_a_disk_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(kpg.OperationalError) as caught:
        Spool([b"x" * MAX_MEMORY_BYTES, b"x" * MAX_MEMORY_BYTES])
    assert caught.value.message == (
        "the contents of the view could not be kept for the client: No space left on device"
    )
