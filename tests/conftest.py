"""Options of the whole test suite."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kpg.runtime.chain import chain_selection
from kpg.runtime.kernels import Kernel
from kpg.session.memory_limit import used_bytes
from tests import installed

NOT_RUN = pytest.StashKey[Counter[tuple[str, str]]]()
ROOM = 256 << 20
"""Bytes by which a process may grow before garbage is collected: Python counts objects, not bytes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--rewrite`` and ``--draw``."""
    parser.addoption("--rewrite", action="store_true", help="accept what the golden tests give")
    parser.addoption("--draw", action="store_true", help="property tests draw new examples")


def pytest_configure(config: pytest.Config) -> None:
    """Property tests have the same examples each time, lest one fail by luck; ``--draw`` draws new ones.

    None fails for the time that it takes: the machine may be slow, and busy.
    """
    settings.register_profile(
        "kpg",
        derandomize=not config.getoption("--draw"),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("kpg")
    config.stash[NOT_RUN] = Counter()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """See ``scheduling.py``."""
    from tests.scheduling import Units

    return Units(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests whose programs are missing. One of several processes: the longest first."""
    kept, left, config.stash[NOT_RUN] = installed.part(items)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    if hasattr(config, "workerinput"):
        from tests.scheduling import ordered

        items[:] = ordered(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """With ``CI=true`` a test whose program is missing fails: no test is lost in silence."""
    if reason := installed.missing(item):
        pytest.fail(f"marked {reason[0]}: {reason[1]}", pytrace=False)


class Room:
    """The size of the process when garbage was last collected."""

    def __init__(self) -> None:
        self.size = used_bytes()

    def keep(self) -> None:
        """Collect garbage if the process has grown much."""
        if used_bytes() > self.size + ROOM:
            gc.collect()
            self.size = used_bytes()


@pytest.fixture(scope="session")
def room() -> Room:
    return Room()


@pytest.fixture(autouse=True)
def collector(room: Room) -> Iterator[None]:
    """Each test leaves the garbage collector on, and little garbage."""
    yield
    on = gc.isenabled()
    gc.enable()
    room.keep()
    assert on, "the garbage collector was left off"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes tells the first which tests are not run."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["not_run"] = list(session.config.stash[NOT_RUN].items())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """All processes collect the same tests: what one of them tells is what all would."""
    told = getattr(node, "workeroutput", {}).get("not_run", ())
    node.config.stash[NOT_RUN] |= Counter({tuple(reason): count for reason, count in told})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each mark whose tests are not run."""
    for line in installed.lines(config.stash[NOT_RUN]):
        terminalreporter.write_line(line)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(autouse=True, scope="session")
def ctrl_c() -> Iterator[None]:
    """Python's handler of Ctrl-C, also where a shell has started the tests in the background, without any."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def chains_at_once() -> Iterator[None]:
    """Chains from the first small step on, so that short histories go through them."""
    usual, chain_selection.USUAL = chain_selection.USUAL, 1
    if os.environ.get("KPG_KERNELS", "native") == "native":
        for kernel in map(chain_selection.kernel_named, chain_selection.CHAIN_KERNELS):
            if isinstance(kernel, Kernel):
                kernel.prepare()
    yield
    chain_selection.USUAL = usual
