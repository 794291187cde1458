"""Options of the whole test suite."""

import os
import signal
from collections.abc import Iterator

import pytest

from kpg.runtime.chain import small
from kpg.runtime.kernels import Kernel


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--rewrite``."""
    parser.addoption("--rewrite", action="store_true", help="accept what the golden tests give")


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
    usual, small.USUAL = small.USUAL, 1
    if os.environ.get("KPG_KERNELS", "native") == "native":
        for kernel in map(small.called, small.CALLED):
            if isinstance(kernel, Kernel):
                kernel.prepare()
    yield
    small.USUAL = usual
