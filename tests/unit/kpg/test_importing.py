"""The collector while the engine's modules are imported, and after."""

import contextlib
import gc
import io
import sys
from collections.abc import Iterator

import pytest

from kpg.runtime.gc_pause import LazyModule, import_at_rest, pause_collector


class Node:
    """A member of a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_in_the_block_and_all_can_be_after() -> None:
    before = sum(one["collections"] for one in gc.get_stats())
    with pause_collector():
        nodes = [Node() for _ in range(10 * gc.get_threshold()[0])]
        assert sum(one["collections"] for one in gc.get_stats()) == before
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert gc.get_count()[0] < gc.get_threshold()[0], "what was made in the block is walked at once"
    made = len(nodes)
    del nodes
    assert gc.collect() >= made


def test_an_error_ends_the_rest() -> None:
    with pytest.raises(ImportError), pause_collector():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with pause_collector():
        pass
    assert not gc.isenabled()


def test_what_is_frozen_stays_frozen() -> None:
    gc.freeze()
    with pause_collector():
        pass
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_module_that_is_there_disturbs_nobody() -> None:
    young = [Node() for _ in range(3)]
    gc.collect(0)
    counts = gc.get_count()
    assert import_at_rest("kpg.runtime.gc_pause").pause_collector is pause_collector
    assert gc.get_count()[1] == counts[1]
    assert young[0].itself is young[0]


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_at_rest("kpg.nothing")
    assert gc.isenabled()


def test_a_lazy_module_is_imported_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    module = LazyModule("this")
    assert not hasattr(module, "__wrapped__")  # as inspect and doctest ask
    assert "this" not in sys.modules
    with contextlib.redirect_stdout(io.StringIO()):
        assert module.d["A"] == "N"
    assert "this" in sys.modules
    assert module.d is sys.modules["this"].d
    with pytest.raises(AttributeError, match="zen"):
        _ = module.zen
