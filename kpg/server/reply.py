"""Requests of the fast lane on their way to the engine and back: see ``lane.py``."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kpg.engine.transaction import State
from kpg.result import Affected, Result
from kpg.runtime.errors import CanceledError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.server import quick, replies
from kpg.server.pace import Pace
from kpg.server.portal import Portal, Prepared, encoded, shape_of_result, spread
from kpg.server.requests import Repeated, Request, repeated
from kpg.sessions.cancel import deadline_of
from kpg.sessions.jobs import Ready
from kpg.sessions.texts import gathers, is_light

if TYPE_CHECKING:
    from kpg.engine.engine import Engine
    from kpg.server.client import Client
    from kpg.server.crowd import Form
    from kpg.server.lane import Lane
    from kpg.statements.keyed import Keyed, Merged

STATUS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}
FEW: Final = 2_000
"""So many rows are a reply that is put together at once, if they are so little; more are sent in pieces."""
LITTLE: Final = 1 << 20
"""Bytes."""
NOTHING: Final = Repeated(b"", 0, b"", 0)
ONE: Final = Affected(1)
"""What most INSERTs give."""


@dataclass(frozen=True, slots=True)
class Usual:
    """A statement that may come again with other values: as it is asked for, and as it is answered."""

    text: str
    word: str
    name: str
    """Of the prepared statement; ``prepared`` is None for the text of a Query."""
    prepared: Prepared | None
    takers: Sequence[quick.Taker]
    known: Repeated
    described: bool
    formats: tuple[int, ...]
    adds: bool | Callable[["Engine"], bool]
    binaries: tuple[int, ...] = ()
    """The forms of values, a one for each that is binary."""

    def binary(self, position: int) -> bool:
        """Whether the value at a position is binary."""
        return bool(self.binaries[position])

    @staticmethod
    def of(client: "Client", request: Request, text: str, word: str, data: bytes) -> "Usual":
        """Of the first request for it."""
        prepared = None if request.name is None else client.prepared(request.name)
        takers: Sequence[quick.Taker] = ()
        binaries: Sequence[int] = ()
        known = NOTHING
        if prepared is not None:
            binaries = spread(request.formats, len(request.values))
            takers = quick.takers_of(binaries, prepared.parameters) or ()
            known = repeated(data, request)
        name = request.name or ""
        described, results, adds = request.described, request.results, gathers(text)
        return Usual(text, word, name, prepared, takers, known, described, results, adds, tuple(binaries))


class Reply:
    """One request on its way to the engine and back: a job, and who waits for it."""

    __slots__ = (
        "_before",
        "_begun",
        "_error",
        "_lane",
        "_outcome",
        "_ready",
        "_state",
        "_values",
        "client",
        "commits",
        "data",
        "form",
        "long",
        "returns",
        "rolls_back",
        "session",
        "stop",
        "usual",
    )

    def __init__(
        self, lane: "Lane", client: "Client", usual: Usual, values: list[Any] | None, stop: int
    ) -> None:
        assert client.session is not None
        self.session = client.session
        self.session.asked = usual.text
        self.rolls_back = self.commits = self.returns = False
        self.client = client
        self.data: bytes | None = None
        """The reply, once it is complete."""
        self.form: Form | None = None
        """What its statement is one of, if it was done as such."""
        self.long: Result | None = None
        """Rows that are too many to be sent at once."""
        self.stop = stop
        """Where the request ends in what has come."""
        self._lane = lane
        self.usual = usual
        self._values = values
        self._begun = time.monotonic()
        self._ready = self._before = b""
        self._outcome: Result | bytes | None = None
        self._error: BaseException | None = None
        self._state = State.NONE

    # As a job

    @property
    def sessions(self) -> None:
        """See Job."""

    def work(self) -> bytes | Result | None:
        """See Job."""
        engine = self.client.server.hub.engine
        dictionary, kept = engine.executor.dictionary, True
        dictionary.begin_reply()
        try:
            answer = self._answered(engine, self.session.answer(engine, self.usual.text, self._values))
            kept = isinstance(answer, Result)
        finally:
            dictionary.end_reply(kept=kept)
        return answer

    def gathers(self, engine: "Engine") -> bool:
        """See Job."""
        adds = self.usual.adds
        return adds if isinstance(adds, bool) else adds(engine)

    def ready(self, engine: "Engine") -> "Ready | Keyed | Merged | None":
        """See Job."""
        usual = self.usual
        if usual.adds is False:
            return None
        ready = self.session.rows(engine, usual.text, self._values, ONE)
        if isinstance(ready, Ready) and ready.recipe is not None:
            version, reply = engine.catalog.version, counted(usual.word, 1, State.NONE, True, usual.described)
            self.form = self.client.server.forms.of(usual, ready.recipe, version, reply)
        return ready

    @property
    def is_plain(self) -> bool:
        """Whether it has gone well, outside of transactions."""
        return self._error is None and self._state is State.NONE

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return self.usual.adds is True or is_light(self.usual.text, engine)

    def begin(self) -> bool:
        """See Job: it is wanted, whatever has become of the client: others may see its effect."""
        return True

    def succeed(self, result: Any) -> None:
        """See Job."""
        self._outcome = result
        self._state = self.session.transactions.state
        self.client.server.turns.finished(self._finish)

    def fail(self, error: BaseException) -> None:
        """See Job."""
        self._error = error
        self._state = self.session.transactions.state
        self.client.server.turns.finished(self._finish)

    # As what is sent

    def _answered(self, engine: "Engine", outcome: Result | None) -> bytes | Result | None:
        """What is sent; an outcome that is a mere count, or too long, as it is."""
        shape = shape_of_result(outcome)
        if outcome is None or shape is None or len(outcome) > FEW:
            return outcome
        formats = spread(self.usual.formats, len(outcome.types))
        pace, place, parts = Pace(), 0, [self._head(outcome)]
        while place < len(outcome):
            if place and sum(map(len, parts)) > LITTLE:
                return outcome
            stop = place + pace.rows
            rows = encoded(outcome, place, stop, formats, engine.executor.dictionary, engine.catalog.style)
            parts.append(replies.data(rows))
            pace.took(len(rows), len(parts[-1]))
            place = stop
        parts.append(completed(quick.tag_of(self.usual.word, outcome)))
        return b"".join(parts)

    def _head(self, outcome: Result) -> bytes:
        """What comes before the rows."""
        usual = self.usual
        shown = usual.described or usual.prepared is None
        formats = tuple(spread(usual.formats, len(outcome.types)))
        columns = tuple(outcome.columns), tuple(outcome.types)
        shape = described(*columns, formats, outcome.origins) if shown else b""
        return shape if usual.prepared is None else replies.BOUND + shape

    def _finish(self) -> None:
        """The engine is done with it."""
        outcome, usual = self._outcome, self.usual
        if (took := time.monotonic() - self._begun) >= self.client.server.limits.slow:
            self.client.took(usual.text, took)
        prepared = usual.prepared is not None
        if self._error is not None:
            failure = replies.failure(self._error) + replies.ready(STATUS[self._state])
            self.data = (replies.BOUND if prepared else b"") + failure
        elif isinstance(outcome, bytes):
            self.data = outcome + replies.ready(STATUS[self._state])
        elif outcome is None or isinstance(outcome, Affected):
            count = 0 if outcome is None else outcome.affected
            self.data = counted(usual.word, count, self._state, prepared, usual.described)
        else:
            self.long = outcome
            self._ready = replies.ready(STATUS[self._state])
        if self.session.notices:
            said = replies.said(self.session)
            self.data, self._before = (None, said) if self.data is None else (said + self.data, b"")
        self._lane.done()

    def send_long(self) -> None:
        """Send many rows as fast as the client takes them."""
        outcome, self.long = self.long, None
        assert outcome is not None
        self.client.server.look_after(self._send(outcome))

    async def _send(self, outcome: Result) -> None:
        portal = Portal(None, self.usual.formats)
        portal.outcome, portal.ran = outcome, True
        self.session.deadline = deadline_of(self.session)
        try:
            self.client.send(self._before + self._head(outcome))
            await self.client.send_rows(portal, 0)
            self.data = completed(quick.tag_of(self.usual.word, outcome)) + self._ready
        except ConnectionError:
            # The client has gone: its task is told so, too.
            self.data = b""
        except CanceledError as error:
            await self.client.fail()
            self.data = replies.failure(error) + replies.ready(STATUS[self.session.transactions.state])
        finally:
            self.session.deadline = 0.0
            self._lane.done()


@lru_cache(256)
def completed(tag: str) -> bytes:
    """CommandComplete."""
    return replies.complete(tag)


@lru_cache(1024)
def counted(word: str, count: int, state: State, prepared: bool, described: bool) -> bytes:
    """The whole reply to a statement that gives a count."""
    head = (replies.BOUND if prepared else b"") + (replies.NO_DATA if described else b"")
    return head + completed(f"{quick.TAGS[word]} {count}") + replies.ready(STATUS[state])


@lru_cache(256)
def described(
    names: tuple[str, ...],
    types: tuple[Type, ...],
    formats: tuple[int, ...],
    origins: tuple[tuple[str, int], ...],
) -> bytes:
    """RowDescription."""
    return replies.description(names, types, formats, origins)
