"""The executor of this process."""

import pytest

from kpg.runtime.errors import InterfaceError
from kpg.runtime.executor import Executor
from kpg.runtime.executor_factory import MERGE_EFFORTS, local_executor
from kpg.runtime.handles import InputHandle, Installation, RankLookup
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import Input
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.derivation_rounds import StateRanks


@pytest.mark.parametrize("effort", MERGE_EFFORTS)
def test_every_effort(effort: str) -> None:
    executor = local_executor(effort, DeferredInterrupt())
    assert (executor.epoch, executor.is_stepping, executor.tables.has_pending) == (0, False, False)
    executor.close()


def test_an_effort_that_there_is_not() -> None:
    with pytest.raises(InterfaceError, match='there is no merge effort "huge"'):
        local_executor("huge", DeferredInterrupt())


@pytest.mark.parametrize(
    ("protocol", "kind"), [(Installation, LocalInstallation), (RankLookup, StateRanks), (InputHandle, Input)]
)
def test_handles_say_what_their_protocols_do(protocol: type, kind: type) -> None:
    """mypy checks their types where they are returned; this, that nothing is forgotten where they are not."""
    wanted = {name for name in vars(protocol) if not name.startswith("_")}
    assert {name for name in wanted if not hasattr(kind, name)} <= {"name"}


def test_an_executor_has_all_that_the_protocol_says() -> None:
    executor = local_executor("default", DeferredInterrupt())
    wanted = {name for name in vars(Executor) if not name.startswith("_")}
    assert {name for name in wanted if not hasattr(executor, name)} == set()
