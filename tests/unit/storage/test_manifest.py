"""The manifest: there always is one, whole; and what is none, damaged or newer is refused by name."""

import pytest

from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.packs import (
    MANIFEST_NAME,
    Checkpoint,
    Manifest,
    PackFacts,
    activate_manifest,
    read_manifest,
    write_manifest,
)
from tests.model.disk import PowerCut, Sim

FIRST = Manifest(77, 1)
SECOND = Manifest(77, 4, Checkpoint(12, (PackFacts(1, 10, 8), PackFacts(2, 3, 3)), 2, 500))


def put(sim: Sim, manifest: Manifest) -> None:
    write_manifest(sim, manifest)
    activate_manifest(sim)


def test_what_is_written_is_read() -> None:
    sim = Sim()
    assert read_manifest(sim) is None
    for manifest in (FIRST, SECOND):
        put(sim, manifest)
        assert read_manifest(sim) == manifest
        assert sorted(sim.names) == [MANIFEST_NAME]


def test_a_power_cut_leaves_one_or_the_other() -> None:
    done = Sim()
    put(done, FIRST)
    before = done.count
    put(done, SECOND)
    for cut in range(before, done.count):
        for seed in range(20):
            sim = Sim()
            put(sim, FIRST)
            sim.cut_at = cut
            with pytest.raises(PowerCut):
                put(sim, SECOND)
            found = sim.after_cut(seed)
            assert read_manifest(found) in (FIRST, SECOND)
            put(found, SECOND)
            assert read_manifest(found) == SECOND


def test_every_flipped_bit_is_found() -> None:
    sim = Sim()
    put(sim, SECOND)
    now = sim.names[MANIFEST_NAME].now
    for place in range(len(now)):
        now[place] ^= 1 << (place % 8)
        with pytest.raises(OperationalError, match="sim/manifest"):
            read_manifest(sim)
        now[place] ^= 1 << (place % 8)
    for size in range(0, len(now), 7):
        short = Sim()
        short.create(MANIFEST_NAME).write(0, [bytes(now[:size])])
        with pytest.raises(DamagedError, match="sim/manifest"):
            read_manifest(short)


def test_a_newer_one_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim()
    monkeypatch.setattr("kpg.runtime.storage.packs.MANIFEST_VERSION", 2)
    put(sim, FIRST)
    monkeypatch.setattr("kpg.runtime.storage.packs.MANIFEST_VERSION", 1)
    with pytest.raises(
        OperationalError, match="sim/manifest has format 2, and this kpg knows formats up to 1"
    ):
        read_manifest(sim)
