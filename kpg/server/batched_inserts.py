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
from kpg.runtime.sockets import IntegerField, Pattern, Requests, Sockets
from kpg.runtime.types import NULL, Type
from kpg.runtime.values.styles import CURRENT_STYLE, DEFAULT_STYLE
from kpg.server.logs import Limits
from kpg.server.portal import CachedStatement
from kpg.server.statement_cache import ParameterDecoder
from kpg.session.engine_thread import EngineThread
from kpg.session.group_commit import BatchSplitError, PreparedInsert
from kpg.session.session import Session

if TYPE_CHECKING:
    from kpg.execute.changes.keyed_changes import Encoder, InsertPlan, KeyedChange, UpsertRow
    from kpg.runtime.dictionary import Dictionary
    from kpg.session.engine import Engine

Words = NDArray[np.int64]
MAX_UNBATCHED_CLIENTS: Final = 2
"""Up to this number of clients, requests are read one by one."""
MAX_TEMPLATES: Final = 256
READY_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks whether the socket loops are compiled."""
UNTYPED_OIDS: Final = (0, 705)
INTEGER_WIDTHS: Final = {20: 8, 21: 2, 23: 4}
"""Bytes of integers in the binary format, by type OID."""


@dataclass(frozen=True, slots=True)
class EncodedParameter:
    """A parameter that the socket loops cannot decode, with its conversion to a word.

    ``cell`` is the parameter's position in the statement, ``column`` that of its word in a row.
    """

    cell: int
    column: int
    decoder: ParameterDecoder
    type_: Type
    encoder: "Encoder"


@dataclass(frozen=True, slots=True, eq=False)
class InsertTemplate:
    """An INSERT without its parameter values, valid for one version of the catalog."""

    insert_plan: "InsertPlan"
    version: int
    text: str
    pattern: Pattern
    encoded_parameters: tuple[EncodedParameter, ...]
    reply: bytes

    @staticmethod
    def from_statement(
        statement: CachedStatement, insert_plan: "InsertPlan", version: int, reply: bytes
    ) -> "InsertTemplate":
        """Return the template of a statement whose rows a cached insert plan builds."""
        assert statement.prepared is not None
        values: list[IntegerField | int] = []
        encoded_parameters: list[EncodedParameter] = []
        cells = {position: (place, type_, take) for place, position, type_, take in insert_plan.cells}
        for position, oid in enumerate(statement.prepared.parameter_oids):
            place, type_, take = cells[position]
            width = INTEGER_WIDTHS.get(oid, 0)
            if type_.kind in LIMITS and (
                width or (oid in UNTYPED_OIDS and not statement.is_binary(position))
            ):
                maximum = min(LIMITS[type_.kind], 1 << (8 * (width or 8) - 1)) - 1
                minimum = max(-maximum - 1, NULL + 2)
                values.append(
                    IntegerField(place, width if statement.is_binary(position) else 0, minimum, maximum)
                )
            else:
                values.append(place)
                encoded_parameters.append(
                    EncodedParameter(position, place, statement.decoders[position], type_, take)
                )
        request = statement.request_template
        pattern = Pattern.build(
            request.head, request.tail, request.bind_tail, insert_plan.constant_words, values
        )
        return InsertTemplate(insert_plan, version, statement.text, pattern, tuple(encoded_parameters), reply)

    def encode_parameters(self, requests: Requests, data: bytes, dictionary: "Dictionary") -> None:
        """Write the words of the parameters that are not integers into the rows.

        Raises ValueError, DataError or another error for a malformed value.
        """
        CURRENT_STYLE.set(DEFAULT_STYLE)
        for parameter in self.encoded_parameters:
            starts, lengths = requests.cells[2 * parameter.cell : 2 * parameter.cell + 2].tolist()
            requests.words[parameter.column] = [
                NULL
                if length < 0
                else parameter.encoder(
                    parameter.decoder(data[start : start + length]), parameter.type_, dictionary
                )
                for start, length in zip(starts, lengths, strict=True)
            ]


class ReplySink(Protocol):
    """Sink of the replies to a client's requests."""

    def write(self, data: bytes) -> None:
        """Send bytes immediately."""

    def log_if_slow(self, text: str, seconds: float) -> None:
        """Log a statement that ran for ``seconds`` if it was slow."""

    def leave(self, data: bytes = b"") -> None:
        """End the batch that :meth:`Source.join` began. ``data`` holds requests that have not run."""


class Source(Protocol):
    """The receiving side of a connection."""

    fd: int
    """File descriptor of the socket."""
    template: InsertTemplate | None
    """Template of the request that the client is likely to send next."""

    @property
    def fast_path(self) -> ReplySink:
        """The sink of the replies."""

    @property
    def writable_fd(self) -> int:
        """File descriptor if all earlier replies have been sent, else -1."""

    def read(self) -> None:
        """Read the available bytes and pass them on."""

    def receive(self, data: bytes, count: int) -> None:
        """Pass on ``count`` received bytes. A negative count is a negated errno."""

    def join(self) -> Session:
        """Return the session, and hold later requests back until :meth:`ReplySink.leave`."""


class BatchReader:
    """Templates of the INSERTs that clients send, and the batched reading of requests."""

    def __init__(self, engine_thread: EngineThread, limits: Limits) -> None:
        self.engine_thread = engine_thread
        self.limits = limits
        self._templates: dict[tuple[object, ...], InsertTemplate] = {}
        self._last_check = -READY_CHECK_INTERVAL
        self._is_compiled = False
        self.sockets: Sockets | None = None

    def find_template(
        self, statement: CachedStatement, insert_plan: "InsertPlan", version: int, reply: bytes
    ) -> InsertTemplate | None:
        """Return the template of a statement.

        None if the statement has none or the socket loops are not compiled yet.
        """
        if (
            statement.prepared is None
            or not len(statement.decoders) == len(insert_plan.cells) == insert_plan.parameter_count
        ):
            return None
        if not self._is_ready():
            return None
        request = statement.request_template
        key = (
            id(insert_plan),
            version,
            statement.text,
            request.head,
            request.tail,
            statement.prepared.parameter_oids,
        )
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = InsertTemplate.from_statement(
                statement, insert_plan, version, reply
            )
        return template

    def _is_ready(self) -> bool:
        if not self._is_compiled and time.monotonic() >= self._last_check + READY_CHECK_INTERVAL:
            self._last_check = time.monotonic()
            try:
                self.sockets = self.sockets or Sockets()
                self._is_compiled = self.sockets.is_ready()
            except InternalError:
                self._last_check = float("inf")
        return self._is_compiled

    def read_batch(self, template: InsertTemplate, sources: "Sequence[Source]") -> None:
        """Receive from clients that are likely to send requests of a template, and submit these as one job.

        Other requests are passed to the clients' sources.
        """
        if len(sources) <= MAX_UNBATCHED_CLIENTS:
            for source in sources:
                source.read()
            return
        assert self.sockets is not None
        parts = self.sockets.receive([wire.fd for wire in sources])
        data = self.sockets.data
        requests = self.sockets.decode(template.pattern)
        counts = requests.counts.tolist()
        matching = []
        for source, (start, length), count in zip(sources, parts, counts, strict=True):
            if count:
                matching.append((source, start, start + length))
            else:
                source.receive(data[start : start + length], length)
        if matching:
            request_counts = requests.counts[requests.counts > 0]
            self.engine_thread.submit_job(
                InsertBatch(self, template, matching, request_counts, requests, data)
            )


class InsertBatch:
    """A job for requests of one template from many clients."""

    rolls_back = commits = returns = False

    def __init__(
        self,
        reader: BatchReader,
        template: InsertTemplate,
        ranges: "Sequence[tuple[Source, int, int]]",
        request_counts: Words,
        requests: Requests,
        data: bytes,
    ) -> None:
        """Create the job.

        Args:
            reader: The reader that received the requests.
            template: Their template.
            ranges: For each client its source, and the start and end of its requests in ``data``.
            request_counts: Number of requests of each client, int64[n].
            requests: The decoded requests.
            data: The received bytes of all clients.
        """
        self._reader, self._template, self._ranges, self._request_counts = (
            reader,
            template,
            ranges,
            request_counts,
        )
        self._requests, self._data = requests, data
        self._start_time = time.monotonic()
        self.sessions: list[Session] = [wire.join() for wire, _, _ in ranges]
        self.session = self.sessions[0]

    # The job

    def work(self) -> None:
        """See Job."""
        raise BatchSplitError("statements of several sessions are done one by one")

    def may_share_step(self, engine: "Engine") -> bool:
        """See Job."""
        return True

    def prepare_change(self, engine: "Engine") -> "PreparedInsert | KeyedChange | UpsertRow | None":
        """See Job."""
        if self._template.version != engine.catalog.version:
            return None
        self._template.encode_parameters(self._requests, self._data, engine.executor.dictionary)
        return PreparedInsert(
            self._template.insert_plan.entry.name, self._requests.words, None, has_statement_per_row=True
        )

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return True

    def begin(self) -> bool:
        """See Job."""
        return True

    def succeed(self, result: Any) -> None:
        """See Job."""
        self._reader.engine_thread.call_soon(self._send_replies)

    def fail(self, error: BaseException) -> None:
        """See Job. Each statement runs again on its own, so that it gets its own error."""
        self._reader.engine_thread.call_soon(self._run_separately)

    # Replies

    def _send_replies(self) -> None:
        if (seconds := time.monotonic() - self._start_time) >= self._reader.limits.slow:
            for source, _, _ in self._ranges:
                source.fast_path.log_if_slow(self._template.text, seconds)
        reply = self._template.reply
        sockets = self._reader.sockets
        assert sockets is not None
        numbers = [wire.writable_fd for wire, _, _ in self._ranges]
        sent_bytes = sockets.send(numbers, self._request_counts, reply)
        for (source, _, _), count, request_count in zip(
            self._ranges, sent_bytes, self._request_counts.tolist(), strict=True
        ):
            if count < request_count * len(reply):
                source.fast_path.write((reply * request_count)[count:])
            else:
                source.template = self._template
            source.fast_path.leave()

    def _run_separately(self) -> None:
        for source, start, end in self._ranges:
            source.fast_path.leave(self._data[start:end])
