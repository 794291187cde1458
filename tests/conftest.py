"""Options of the whole test suite."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kpg.runtime.chain import chain_selection
from kpg.runtime.kernels import Kernel
from kpg.session.memory_limit import used_bytes
from tests import installed, tiers

NOT_RUN = pytest.StashKey[Counter[tuple[str, str]]]()
LEFT_OUT = pytest.StashKey[Counter[tuple[str, str]]]()
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
        max_examples=25 if config.option.markexpr == tiers.QUICK else 100,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("kpg")
    config.pluginmanager.register(Marking())
    config.stash[NOT_RUN], config.stash[LEFT_OUT] = Counter(), Counter()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which the tier runs no test: they are not imported."""
    asked = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    if not (found := tiers.left_out(collection_path, config.option.markexpr)):
        return None
    if any(collection_path.is_relative_to(path) for path in asked):
        config.stash[LEFT_OUT]["files", found] += 1
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """See ``scheduling.py``."""
    from tests.scheduling import Units

    return Units(config, log)


class Marking:
    """Marks tests by their tier, before pytest selects by marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.stash[LEFT_OUT] += tiers.mark(items, config.option.markexpr)


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
        session.config.workeroutput["left_out"] = list(session.config.stash[LEFT_OUT].items())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """All processes collect the same tests: what one of them tells is what all would."""
    output = getattr(node, "workeroutput", {})
    for key, name in ((NOT_RUN, "not_run"), (LEFT_OUT, "left_out")):
        node.config.stash[key] |= Counter({tuple(reason): count for reason, count in output.get(name, ())})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each mark whose programs are missing, and one for the tier."""
    for line in installed.lines(config.stash[NOT_RUN]):
        terminalreporter.write_line(line)
    if left := tiers.line(config.stash[LEFT_OUT]):
        terminalreporter.write_line(left)


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
