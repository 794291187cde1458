"""One Spark session for the files that can share it: a JVM takes seconds to start, and to become quick."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from kpg.runtime.spark import session
from tests.scheduling import SHARING

_open: Final = ExitStack()
_sessions: Final[list[Any]] = []


@pytest.fixture(scope="module")
def spark() -> Any:
    """A session of our own with three slots; it goes when a test comes that may have one for itself."""
    if not _sessions:
        patch = _open.enter_context(pytest.MonkeyPatch.context())
        patch.setitem(session.SETTINGS, "spark.master", "local[3]")
        patch.setitem(session.SETTINGS, "spark.driver.memory", "1g")
        _sessions.append(_open.enter_context(session.own_session(session.SessionWork.READING)).get())
    return _sessions[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """End the session after the last test of the files that share it."""
    yield
    if _sessions and (nextitem is None or not nextitem.nodeid.startswith(SHARING)):
        session = _sessions.pop()
        _open.close()
        assert session.sparkContext._jsc is None
