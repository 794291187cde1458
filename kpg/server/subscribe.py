"""SUBSCRIBE: streams the committed changes of a view to a client.

    SUBSCRIBE [TO] view [WITH (SNAPSHOT [= true], PROGRESS [= false])] [AS OF epoch]

Rows are ``(epoch, diff, columns...)``. With PROGRESS they are ``(epoch, progressed, diff, columns...)``, and
a progress row states that all rows of earlier epochs have been sent. Without AS OF the stream begins with
the view's contents, unless SNAPSHOT is false. With AS OF it begins with the changes after that epoch, which
requires the database to keep its history.

The snapshot is written at one epoch into a spool: memory if it is small, else a temporary file. Later changes
wait in memory, up to ``MAX_PENDING_BYTES``. Then the client is disconnected.
"""

import asyncio
import marshal
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import Any, Final

from kpg.api.view import MaintainedView
from kpg.compiler.sql.frontend import check_relation
from kpg.runtime.errors import OperationalError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, Type
from kpg.runtime.values import codec_of
from kpg.server.binary_format import Writer, binary_writer, text_writer
from kpg.session.engine import Engine
from kpg.session.subscriptions import Change, Subscription

MAX_MEMORY_BYTES: Final = 1 << 20
"""Bytes above which a spool uses a file; about as many as a connection accepts at once."""


class Spool:
    """A queue of chunks of bytes, strings, numbers, tuples and lists that spills to a temporary file.

    The constructor writes all chunks, on the engine's thread. Another thread may read them.
    OperationalError if the disk is full.
    """

    def __init__(self, chunks: Iterable[Any]) -> None:
        self._file = SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES)  # noqa: SIM115 (closed at the end of reading)
        self._sizes = deque[int]()
        try:
            for portion in chunks:
                self._sizes.append(self._file.write(marshal.dumps(portion)))
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise OperationalError(
                f"the contents of the view could not be kept for the client: {error.strerror or error}",
                hint="free space for temporary files, or subscribe without the snapshot",
            ) from error

    def next(self) -> Any:
        """Return the next chunk; None at the end."""
        if not self._sizes:
            self._file.close()
            return None
        return marshal.loads(self._file.read(self._sizes.popleft()))

    def __del__(self) -> None:
        """Close the file of a spool that was not read to the end."""
        self._file.close()


NAME_PATTERN: Final = r'(?:"(?:[^"]|"")+"|[\w$]+)(?:\.(?:"(?:[^"]|"")+"|[\w$]+))?'
SUBSCRIBE_PATTERN: Final = re.compile(
    rf"""\s*(?P<copy>copy\s*\(\s*)?subscribe\s+(?:to\s+)?(?P<view>{NAME_PATTERN})
    (?:\s+with\s*\((?P<options>[^)]*)\))?(?:\s+as\s+of\s+(?P<epoch>\d+))?\s*
    (?(copy)\)\s*to\s+stdout\s*)(?:;\s*)?""",
    re.IGNORECASE | re.VERBOSE,
)
OPTION_PATTERN: Final = re.compile(r"\s*(\w+)\s*(?:=\s*)?(true|false|on|off)?\s*", re.IGNORECASE)
MAX_PENDING_BYTES: Final = 1 << 26
"""Bytes of changes, besides the socket's buffers, from which a slow client is disconnected."""
CHUNK_ROWS: Final = 2_000
"""Rows of a chunk of the snapshot."""
Row = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A SUBSCRIBE statement; ``copies`` if it is inside COPY."""

    view: str
    snapshot: bool
    progress: bool
    epoch: int | None
    copies: bool
    span: Span


def parse_subscribe(text: str) -> Subscribe | None:
    """Parse a SUBSCRIBE; None for another statement."""
    if "subscribe" not in text.lower():
        return None
    match = SUBSCRIBE_PATTERN.fullmatch(text)
    if match is None:
        if re.match(r"\s*(copy\s*\(\s*)?subscribe\b", text, re.IGNORECASE) is None:
            return None
        hint = "SUBSCRIBE view [WITH (SNAPSHOT, PROGRESS)] [AS OF epoch]"
        raise ProgrammingError("syntax error in SUBSCRIBE", span=Span(text, 0, len(text)), hint=hint)
    options = _options(text, match)
    epoch = None if match["epoch"] is None else int(match["epoch"])
    view = re.sub(r'"((?:[^"]|"")*)"', lambda part: part[1].replace('""', '"'), match["view"])
    span = Span(text, 0, len(text.rstrip().rstrip(";")))
    snapshot, progress = options.get("snapshot", True), options.get("progress", False)
    return Subscribe(view, snapshot, progress, epoch, match["copy"] is not None, span)


def _options(text: str, match: "re.Match[str]") -> dict[str, bool]:
    options: dict[str, bool] = {}
    option_text = match["options"]
    for part in option_text.split(",") if option_text else ():
        option = OPTION_PATTERN.fullmatch(part)
        if option is None or option[1].lower() not in ("snapshot", "progress"):
            span = Span(text, match.start("options"), match.end("options"))
            raise ProgrammingError(
                f"SUBSCRIBE has no option {part.strip()}", span=span, hint="SNAPSHOT and PROGRESS"
            )
        options[option[1].lower()] = (option[2] or "true").lower() in ("true", "on")
    return options


def subscription_rows(statement: Subscribe, changes: Iterable[Change]) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a SUBSCRIBE for some changes."""
    progressed = (False,) if statement.progress else ()
    return ((time, *progressed, diff, *row) for row, time, diff in changes)


def progress_row(engine: Engine, types: Sequence[Type]) -> tuple[Any, ...]:
    """Return the progress row: all rows up to the current epoch have been sent."""
    return (engine.executor.epoch + 1, True, *[None] * (len(types) - 2))


def send_initial_rows(
    view: MaintainedView, statement: Subscribe, send: Callable[[list[Change]], None]
) -> None:
    """Pass the changes since the subscription's epoch, or the snapshot if requested, to a function."""
    if statement.epoch is not None:
        send(view.feed.changes_since(view.name, statement.epoch))
    elif statement.snapshot:
        send(view.feed.snapshot())


def shape_of(engine: Engine, statement: Subscribe) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """Return the names and types of the columns of a SUBSCRIBE; None inside COPY."""
    if statement.copies:
        return None
    view = engine.view(statement.view)
    leading_columns = {"epoch": BIGINT, "progressed": BOOLEAN, "diff": BIGINT}
    if not statement.progress:
        del leading_columns["progressed"]
    return (*leading_columns, *view.reader.names), (*leading_columns.values(), *view.reader.visible_types)


def check_view(engine: Engine, view: MaintainedView | None, name: str) -> None:
    """Raise ProgrammingError if the subscribed view was dropped or replaced or may not be read."""
    if view is None or not view.is_live:
        error = ProgrammingError(f"view {name} was dropped or replaced", hint="subscribe again")
        error.sqlstate = "55000"
        raise error
    check_relation(engine.catalog, name)


class Stream:
    """The changes of a view for one client, encoded on the engine's thread and sent on the event loop's."""

    def __init__(self, statement: Subscribe, formats: int, loop: asyncio.AbstractEventLoop) -> None:
        self._statement = statement
        self._format = formats
        self._loop = loop
        self._queue: asyncio.Queue[list[Row] | Spool | BaseException] = asyncio.Queue()
        self._snapshot: Spool | None = None
        self._pending_bytes = 0
        self._subscription: Subscription | None = None
        self._view: MaintainedView | None = None
        self._writers: list[tuple[Any, Writer]] = []
        self.names: tuple[str, ...] = ()
        self.types: tuple[Type, ...] = ()

    def open(self, engine: Engine) -> None:
        """Subscribe to the view, on the engine's thread."""
        check_relation(engine.catalog, self._statement.view)
        view = engine.view(self._statement.view)
        shape = shape_of(engine, replace(self._statement, copies=False))
        assert shape is not None
        self.names, self.types = shape
        writer_for = binary_writer if self._format else text_writer
        self._writers = [(codec_of(type_).from_python, writer_for(type_)) for type_ in self.types]
        self._view = view
        if self._statement.epoch is None:
            send_initial_rows(view, self._statement, self._send_snapshot)
        else:
            send_initial_rows(view, self._statement, self._send_changes)
        if self._statement.progress:
            self.send_progress(engine)
        self._subscription = view.feed.subscribe(self._send_changes)

    def close(self, _: Engine) -> None:
        """End the subscription, on the engine's thread."""
        if self._subscription is not None:
            self._subscription.close()

    def send_heartbeat(self, engine: Engine) -> None:
        """Check that the view exists and may be read, and send a progress row if requested."""
        check_view(engine, self._view, self._statement.view)
        if self._statement.progress:
            self.send_progress(engine)

    def send_progress(self, engine: Engine) -> None:
        """Send a progress row, on the engine's thread."""
        self._enqueue([self._encode_row(progress_row(engine, self.types))])

    async def next_rows(self) -> list[Row]:
        """Return the next rows once there are any. OperationalError if the client is too slow."""
        while True:
            if self._snapshot is not None and (rows := self._snapshot.next()) is not None:
                return list(rows)
            self._snapshot = None
            item = await self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, list):
                self._pending_bytes -= estimate_bytes(item)
                return item
            self._snapshot = item

    def _send_snapshot(self, changes: list[Change]) -> None:
        """Spool the snapshot, whatever its size."""
        rows = map(self._encode_row, subscription_rows(self._statement, changes))
        if changes:
            chunks = iter(lambda: list(islice(rows, CHUNK_ROWS)), [])
            self._loop.call_soon_threadsafe(self._queue.put_nowait, Spool(chunks))

    def _send_changes(self, changes: list[Change]) -> None:
        if changes:
            self._enqueue([self._encode_row(row) for row in subscription_rows(self._statement, changes)])

    def _encode_row(self, values: Iterable[Any]) -> Row:
        pairs = zip(values, self._writers, strict=True)
        return tuple(None if value is None else write(encode(value)) for value, (encode, write) in pairs)

    def _enqueue(self, rows: list[Row]) -> None:
        self._pending_bytes += estimate_bytes(rows)
        item: list[Row] | BaseException = rows
        if self._pending_bytes > MAX_PENDING_BYTES:
            message = (
                f"the subscription is cut off: {MAX_PENDING_BYTES >> 20} MB of changes wait for the client"
            )
            item = OperationalError(message, hint="SUBSCRIBE again, AS OF the last epoch that came")
            if self._subscription is not None:
                self._subscription.close()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, item)


def estimate_bytes(rows: list[Row]) -> int:
    """Return the approximate size of rows."""
    return sum(8 * len(row) + sum(len(field) for field in row if field is not None) for row in rows)


def copy_line(row: Row) -> bytes:
    """Return a row as a line of COPY's text format."""
    return b"\t".join(rb"\N" if field is None else _escape(field) for field in row) + b"\n"


def _escape(field: bytes) -> bytes:
    for raw, escape in ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\n", rb"\n"), (b"\r", rb"\r")):
        field = field.replace(raw, escape)
    return field
