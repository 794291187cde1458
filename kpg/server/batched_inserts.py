"""Batched inserts: INSERTs of one form, sent by many clients, run as one job.

Compiled loops read the requests from the clients' bytes, write the rows and produce the replies.
A statement qualifies after it has run once on the fast path (``fast_path``), and as long as its client
sends nothing else. Unexpected input falls back to each client's own fast path. If one statement fails,
the whole batch falls back too, so that each statement gets its own outcome.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.sql.parameterize.value_lists import LIMITS
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass
from kpg.runtime.sockets import Found, Number, Pattern, Sockets
from kpg.runtime.types import NULL, Type
from kpg.runtime.values.styles import BINDING, PLAIN
from kpg.server.logs import Limits
from kpg.server.portal import Usual
from kpg.server.statement_cache import Taker
from kpg.session.engine_thread import Turns
from kpg.session.group_commit import ApartError, Ready
from kpg.session.session import Session

if TYPE_CHECKING:
    from kpg.execute.changes.keyed_changes import Keyed, Merged, Recipe, Take
    from kpg.runtime.dictionary import Dictionary
    from kpg.session.engine import Engine

Words = NDArray[np.int64]
FEW: Final = 2
"""Of so many clients requests are read one by one."""
MOST_FORMS: Final = 256
PATIENCE: Final = 1.0
"""Seconds until it is asked again whether loops have been compiled."""
UNTYPED: Final = (0, 705)
WIDTHS: Final = {20: 8, 21: 2, 23: 4}
"""Bytes of whole numbers, by the numbers of their types."""


@dataclass(frozen=True, slots=True)
class Other:
    """A value that is no whole number: where its bytes and its word are, and what makes one of the other."""

    cell: int
    place: int
    taker: Taker
    type_: Type
    take: "Take"


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A statement with all but its values, while definitions are what they are."""

    recipe: "Recipe"
    version: int
    text: str
    pattern: Pattern
    others: tuple[Other, ...]
    reply: bytes

    @staticmethod
    def of(usual: Usual, recipe: "Recipe", version: int, reply: bytes) -> "Form":
        """Of a statement whose values make rows by a recipe."""
        assert usual.prepared is not None
        values: list[Number | int] = []
        others: list[Other] = []
        cells = {position: (place, type_, take) for place, position, type_, take in recipe.cells}
        for position, number in enumerate(usual.prepared.parameters):
            place, type_, take = cells[position]
            width = WIDTHS.get(number, 0)
            if type_.kind in LIMITS and (width or (number in UNTYPED and not usual.binary(position))):
                most = min(LIMITS[type_.kind], 1 << (8 * (width or 8) - 1)) - 1
                least = max(-most - 1, NULL + 2)
                values.append(Number(place, width if usual.binary(position) else 0, least, most))
            else:
                values.append(place)
                others.append(Other(position, place, usual.takers[position], type_, take))
        known = usual.known
        pattern = Pattern.of(known.head, known.tail, known.results, recipe.first, values)
        return Form(recipe, version, usual.text, pattern, tuple(others), reply)

    def fill(self, found: Found, data: bytes, dictionary: "Dictionary") -> None:
        """Put the words of values that are no whole numbers into rows; whatever is odd raises something."""
        BINDING.set(PLAIN)
        for other in self.others:
            starts, lengths = found.cells[2 * other.cell : 2 * other.cell + 2].tolist()
            found.words[other.place] = [
                NULL
                if length < 0
                else other.take(other.taker(data[start : start + length]), other.type_, dictionary)
                for start, length in zip(starts, lengths, strict=True)
            ]


class Replies(Protocol):
    """Where the replies to a client's requests go."""

    def write(self, data: bytes) -> None:
        """Send something at once."""

    def took(self, text: str, seconds: float) -> None:
        """Note a statement that has taken long."""

    def leave(self, data: bytes = b"") -> None:
        """End what :meth:`Source.join` began; ``data`` is still to be done."""


class Source(Protocol):
    """One connection's way in."""

    number: int
    """Of the socket, as the system knows it."""
    form: Form | None
    """Of the requests that the client is likely to send."""

    @property
    def lane(self) -> Replies:
        """Where replies go."""

    @property
    def free_number(self) -> int:
        """The number, if a write there follows all that has been sent; else -1."""

    def read(self) -> None:
        """Read and hand on what the client has sent."""

    def came(self, data: bytes, count: int) -> None:
        """Hand on ``count`` bytes; a negative count is an error number."""

    def join(self) -> Session:
        """Hold back what comes next, while a request is done with those of other clients."""


class Forms:
    """The forms that clients have sent, and what reads and answers requests of a form."""

    def __init__(self, turns: Turns, limits: Limits) -> None:
        self.turns = turns
        self.limits = limits
        self._forms: dict[tuple[object, ...], Form] = {}
        self._tried = -PATIENCE
        self._ready = False
        self.sockets: Sockets | None = None

    def of(self, usual: Usual, recipe: "Recipe", version: int, reply: bytes) -> Form | None:
        """The form of a request; None if it has none, or there is nothing to read it by, yet."""
        if usual.prepared is None or not len(usual.takers) == len(recipe.cells) == recipe.values:
            return None
        if not self._is_ready():
            return None
        known = usual.known
        key = (id(recipe), version, usual.text, known.head, known.tail, usual.prepared.parameters)
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            form = self._forms[key] = Form.of(usual, recipe, version, reply)
        return form

    def _is_ready(self) -> bool:
        if not self._ready and time.monotonic() >= self._tried + PATIENCE:
            self._tried = time.monotonic()
            try:
                self.sockets = self.sockets or Sockets()
                self._ready = self.sockets.ready()
            except InternalError:
                self._tried = float("inf")
        return self._ready

    def read(self, form: Form, wires: "Sequence[Source]") -> None:
        """Read what has come from some clients, who send requests of a form, and have it be done."""
        if len(wires) <= FEW:
            for wire in wires:
                wire.read()
            return
        assert self.sockets is not None
        parts = self.sockets.receive([wire.number for wire in wires])
        data = self.sockets.data
        found = self.sockets.read(form.pattern)
        counts = found.counts.tolist()
        alike = []
        for wire, (start, length), count in zip(wires, parts, counts, strict=True):
            if count:
                alike.append((wire, start, start + length))
            else:
                wire.came(data[start : start + length], length)
        if alike:
            times = found.counts[found.counts > 0]
            self.turns.take(Crowd(self, form, alike, times, found, data))


class Crowd:
    """Requests of one form on their way to the engine and back: a job, and who wait for it."""

    rolls_back = commits = returns = False

    def __init__(
        self,
        forms: Forms,
        form: Form,
        alike: "Sequence[tuple[Source, int, int]]",
        times: Words,
        found: Found,
        data: bytes,
    ) -> None:
        """``alike``: clients, and what of ``data`` each has sent: so many (``times``) requests."""
        self._forms, self._form, self._alike, self._times = forms, form, alike, times
        self._found, self._data = found, data
        self._begun = time.monotonic()
        self.sessions: list[Session] = [wire.join() for wire, _, _ in alike]
        self.session = self.sessions[0]

    # As a job

    def work(self) -> None:
        """See Job."""
        raise ApartError("statements of several sessions are done one by one")

    def gathers(self, engine: "Engine") -> bool:
        """See Job."""
        return True

    def ready(self, engine: "Engine") -> "Ready | Keyed | Merged | None":
        """See Job."""
        if self._form.version != engine.catalog.version:
            return None
        self._form.fill(self._found, self._data, engine.executor.dictionary)
        return Ready(self._form.recipe.entry.name, self._found.words, None, many=True)

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return True

    def begin(self) -> bool:
        """See Job."""
        return True

    def succeed(self, result: Any) -> None:
        """See Job."""
        self._forms.turns.finished(self._answer)

    def fail(self, error: BaseException) -> None:
        """See Job: each statement is done again, with those of other sessions, and has its own error."""
        self._forms.turns.finished(self._part)

    # As what is sent

    def _answer(self) -> None:
        """All of it is done."""
        if (took := time.monotonic() - self._begun) >= self._forms.limits.slow:
            for wire, _, _ in self._alike:
                wire.lane.took(self._form.text, took)
        reply = self._form.reply
        sockets = self._forms.sockets
        assert sockets is not None
        numbers = [wire.free_number for wire, _, _ in self._alike]
        sent = sockets.send(numbers, self._times, reply)
        for (wire, _, _), count, times in zip(self._alike, sent, self._times.tolist(), strict=True):
            if count < times * len(reply):
                wire.lane.write((reply * times)[count:])
            else:
                wire.form = self._form
            wire.lane.leave()

    def _part(self) -> None:
        """It has not been done."""
        for wire, start, end in self._alike:
            wire.lane.leave(self._data[start:end])
