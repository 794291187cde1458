"""A log has its whole records, whatever a crash left of the last ones, and tells damage from that."""

import numpy as np
import pytest

from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import PAGE, checksum_of
from kpg.runtime.storage.log import MAGIC, VERSION, Log, Segment, segment_name, segment_number
from tests.model.disk import PowerCut, Sim, SimFile


def payload(number: int, size: int | None = None) -> bytes:
    random = np.random.default_rng(number)
    size = 8 * int(random.choice([0, 1, 5, 60, 300])) if size is None else size
    return random.integers(0, 256, size).astype(np.uint8).tobytes()


def contents(sim: Sim, segment: int = 3) -> list[tuple[int, int, bytes]]:
    return [(one.kind, one.number, bytes(one.payload)) for one in Segment(sim, segment, 99).records()]


def test_what_was_written_is_read() -> None:
    sim = Sim()
    log = Log.create(sim, 3, 99, 10)
    log.append(1, [payload(1)])
    assert log.append(2, [payload(2, 16), memoryview(payload(3, 8))]) == 11
    log.append(7, [])
    log.sync()
    assert contents(sim) == [(1, 10, payload(1)), (2, 11, payload(2, 16) + payload(3, 8)), (7, 12, b"")]
    found = list(Segment(sim, 3, 99).records())
    assert found[0].start == 64
    assert [one.end for one in found] == [one.start for one in found[1:]] + [log.end]
    assert found[0].end - found[0].start == 48 + len(payload(1)) + 8


def test_a_log_goes_on() -> None:
    sim = Sim()
    log = Log.create(sim, 3, 99, 10)
    log.append(1, [payload(1)])
    log.sync()
    segment = Segment(sim, 3, 99)
    (record,) = segment.records()
    log = Log.resume(sim, segment, 3, record.end, 11)
    log.append(1, [payload(2)])
    assert [one[2] for one in contents(sim)] == [payload(1), payload(2)]


def test_a_log_of_an_earlier_version_goes_on_as_one_of_this() -> None:
    """Who knows that version only does not read what is new in it."""
    sim = Sim()
    log = Log.create(sim, 3, 99, 10)
    log.append(1, [payload(1)])
    log.close()
    file = sim.open("log-00000003", writing=True)
    words = np.frombuffer(file.read(0, 64), np.int64).copy()
    words[1] = 1
    words[-1] = checksum_of([words[:-1].tobytes()])
    file.write(0, [words.tobytes()])
    segment = Segment(sim, 3, 99)
    (record,) = segment.records()
    log = Log.resume(sim, segment, 3, record.end, 11)
    log.append(1, [payload(2)])
    assert np.frombuffer(file.read(0, 64), np.int64)[:6].tolist() == [MAGIC, VERSION, 99, 3, 10, segment.salt]
    assert [one[2] for one in contents(sim)] == [payload(1), payload(2)]


def test_what_is_written_again_is_whole_pages_of_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each piece would be refused where it is to go past the system's memory."""
    monkeypatch.setattr("kpg.runtime.storage.log.ALLOCATION_BYTES", 2 * PAGE)
    sim = Sim()
    log = Log.create(sim, 3, 99, 10)
    log.append(1, [payload(1, 5 * PAGE)])
    log.sync()
    addresses, write = list[int](), SimFile.write

    def noted(file: SimFile, offset: int, pieces: list[memoryview]) -> None:
        (piece,) = pieces
        addresses.append(np.frombuffer(piece, np.uint8).ctypes.data % PAGE)
        write(file, offset, pieces)

    monkeypatch.setattr(SimFile, "write", noted)
    Log.resume(sim, Segment(sim, 3, 99), 3, log.end, 11)
    assert addresses == [0, 0, 0]
    assert contents(sim) == [(1, 10, payload(1, 5 * PAGE))]


def test_cut_back_to_a_mark() -> None:
    sim = Sim()
    log = Log.create(sim, 3, 99, 0)
    log.append(1, [payload(1)])
    mark = log.position()
    log.append(1, [payload(2)])
    log.append(1, [payload(3)])
    log.truncate_to(mark)
    log.append(1, [payload(4)])
    log.sync()
    assert [one[2] for one in contents(sim)] == [payload(1), payload(4)]
    assert [one[1] for one in contents(sim)] == [0, 1]


def test_names_of_segments() -> None:
    assert segment_name(12) == "log-00000012"
    assert segment_number("log-00000012") == 12
    assert segment_number("log-x") is None
    assert segment_number("manifest") is None


@pytest.mark.parametrize("every", [1, 3, 1000])
def test_a_cut_at_any_operation_leaves_what_was_synced(every: int) -> None:
    """And of what was not, the first records, whole."""
    for seed in range(150):
        sim = Sim(seed)
        sim.cut_at = seed % 30
        given, synced = 0, 0
        try:
            log = Log.create(sim, 3, 99, 0)
            for number in range(20):
                given = number + 1
                log.append(1, [payload(number)])
                if number % every == every - 1:
                    log.sync()
                    synced = number + 1
        except PowerCut:
            pass
        found = sim.after_cut(seed)
        if segment_name(3) not in found.names:
            assert synced == 0
            continue
        records = contents(found)
        assert synced <= len(records) <= given
        assert records == [(1, number, payload(number)) for number in range(len(records))]


def test_every_flipped_bit_is_found() -> None:
    """But for those of the word at a record's end, which changes nothing."""
    sim = Sim()
    log = Log.create(sim, 3, 99, 0)
    for number in range(4):
        log.append(1, [payload(number, 80)])
        log.sync()
    whole = bytes(sim.names[segment_name(3)].now)
    expected = contents(sim)
    ends = {place for one in Segment(sim, 3, 99).records() for place in range(one.end - 8, one.end)}
    random = np.random.default_rng(1)
    for place in range(log.end):
        data = bytearray(whole)
        data[place] ^= 1 << int(random.integers(8))
        other = Sim()
        other.create(segment_name(3)).write(0, [bytes(data)])
        if place in ends:
            assert contents(other) == expected
        else:
            with pytest.raises(OperationalError, match="log-00000003"):
                contents(other)


def test_a_record_that_was_written_in_part_was_never_there() -> None:
    """A disk that is full takes as many bytes as it has room for."""
    sim = Sim()
    log = Log.create(sim, 3, 99, 0)
    log.append(1, [payload(1, 16)])
    start = log.end
    log.append(1, [bytes([1]) * 1000])
    whole = bytes(sim.names[segment_name(3)].now)
    for end in range(start, log.end - 8):
        for room in (b"", bytes(5000)):
            other = Sim()
            other.create(segment_name(3)).write(0, [whole[:end] + room])
            assert contents(other) == [(1, 0, payload(1, 16))]


def test_a_record_whose_last_word_never_came_is_there() -> None:
    """Or came in part: a power cut may take its sector, and a write fail anywhere."""
    sim = Sim()
    log = Log.create(sim, 3, 99, 1)
    log.append(1, [payload(1, 744)])
    data = sim.names[segment_name(3)].now
    (record,) = Segment(sim, 3, 99).records()
    assert Segment(sim, 3, 99).has_end_word(record)
    word = bytes(data[record.end - 8 : record.end])
    for room in (100, 0):
        for came in range(9):
            data[record.end - 8 :] = word[:came] + bytes(8 - came + room if room else 0)
            (record,) = (segment := Segment(sim, 3, 99)).records()
            assert segment.has_end_word(record)
    for bit in range(64):
        flipped = (int.from_bytes(word, "little") ^ 1 << bit).to_bytes(8, "little")
        data[record.end - 8 :] = flipped
        (record,) = (segment := Segment(sim, 3, 99)).records()
        assert not segment.has_end_word(record)


def test_damage_says_where() -> None:
    sim = Sim()
    log = Log.create(sim, 3, 99, 0)
    for number in range(3):
        log.append(1, [payload(number, 80)])
        log.sync()
    second = list(Segment(sim, 3, 99).records())[1]
    sim.names[segment_name(3)].now[second.end - 9] ^= 1
    with pytest.raises(DamagedError) as caught:
        contents(sim)
    assert str(caught.value) == (
        f"sim/log-00000003 is damaged at byte {second.start}: record 1 is not what was written\n"
        "hint: what is before that byte can be read: restore a backup, or give up what is behind it, "
        "kpg check --repair sim"
    )


def test_others_files_and_newer_formats_are_refused() -> None:
    sim = Sim()
    Log.create(sim, 3, 99, 0)
    with pytest.raises(DamagedError, match="is a log of another database"):
        Segment(sim, 3, 98)
    sim.create(segment_name(4)).write(
        0, [b"something else, of more than 64 bytes, which nobody has written here"]
    )
    with pytest.raises(DamagedError, match="is no log of kpg"):
        Segment(sim, 4, 99)
    sim.names[segment_name(3)].now[8] = 5
    with pytest.raises(OperationalError, match="has format 5, and this kpg knows formats up to 4"):
        Segment(sim, 3, 99)


def test_a_segment_whose_header_never_came_is_empty() -> None:
    sim = Sim()
    sim.create(segment_name(3))
    assert Segment(sim, 3, 99).is_empty
    assert contents(sim) == []


def test_records_are_written_in_whole_pages() -> None:
    """The first has what it had before; behind a small record is room, behind a large one a page."""
    sim = Sim()
    log = Log.create(sim, 3, 99, 0)
    node = sim.names[segment_name(3)]
    for number, size in enumerate([8, 1 << 17, 16, 4096, (1 << 16) + 8, 24]):
        start, node.waiting[:] = log.end, []
        log.append(1, [payload(number, size)])
        offsets = [offset for offset, _ in node.waiting]
        assert offsets[0] == start - start % PAGE
        assert all((offset | len(part or b"")) % PAGE == 0 for offset, part in node.waiting)
        assert len(node.now) >= log.end + 512
    assert [one[2] for one in contents(sim)] == [
        payload(number, size) for number, size in enumerate([8, 1 << 17, 16, 4096, (1 << 16) + 8, 24])
    ]


@pytest.mark.parametrize("size", [8, 4000, 4040, 4096, 1 << 17])
def test_what_is_cut_back_leaves_the_page_as_it_was(size: int) -> None:
    sim = Sim()
    log = Log.create(sim, 3, 99, 0)
    log.append(1, [payload(0, size)])
    log.sync()
    mark = log.position()
    log.append(1, [payload(1, 1 << 17)])
    log.truncate_to(mark)
    assert len(sim.names[segment_name(3)].now) == mark.end
    log.append(1, [payload(2, 40)])
    log.sync()
    expected = [(1, 0, payload(0, size)), (1, 1, payload(2, 40))]
    assert contents(sim) == contents(sim.after_cut(5)) == expected
    segment = Segment(sim, 3, 99)
    again = Log.resume(sim, segment, 3, log.end, 2)
    again.append(1, [payload(3, 72)])
    assert contents(sim) == [*expected, (1, 2, payload(3, 72))]
