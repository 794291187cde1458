"""SUBSCRIBE: streams the committed changes of a view to a client.

    SUBSCRIBE [TO] view [WITH (SNAPSHOT [= true], PROGRESS [= false])] [AS OF epoch]

Rows are ``(epoch, diff, columns...)``. With PROGRESS they are ``(epoch, progressed, diff, columns...)``, and
a progress row states that all rows of earlier epochs have been sent. Without AS OF the stream begins with
the view's contents, unless SNAPSHOT is false. With AS OF it begins with the changes after that epoch, which
requires the database to keep its history.

The snapshot is written at one epoch into a spool: memory if it is small, else a temporary file. A slow client
therefore costs disk space and no memory.
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

from kpg.api.view import Maintained
from kpg.compiler.sql.frontend import check_relation
from kpg.runtime.errors import OperationalError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, Type
from kpg.runtime.values import codec_of
from kpg.server.binary_format import Writer, text_writer, writer_of
from kpg.session.engine import Engine
from kpg.session.subscriptions import Change, Subscription

IN_MEMORY: Final = 1 << 20
"""Bytes from which a file is made: what a connection takes in one go."""


class Spool:
    """Portions, each of anything made of bytes, texts, numbers, tuples and lists.

    Written on the engine's thread when this is made, read by one other thread. OperationalError if the disk
    lacks room for them.
    """

    def __init__(self, portions: Iterable[Any]) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (closed once it is read)
        self._sizes = deque[int]()
        try:
            for portion in portions:
                self._sizes.append(self._file.write(marshal.dumps(portion)))
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise OperationalError(
                f"the contents of the view could not be kept for the client: {error.strerror or error}",
                hint="make room where temporary files are, or subscribe without the snapshot",
            ) from error

    def next(self) -> Any:
        """The next portion; None if there is none."""
        if not self._sizes:
            self._file.close()
            return None
        return marshal.loads(self._file.read(self._sizes.popleft()))

    def __del__(self) -> None:
        """Nobody takes the rest: the client has gone."""
        self._file.close()


NAME: Final = r'(?:"(?:[^"]|"")+"|[\w$]+)(?:\.(?:"(?:[^"]|"")+"|[\w$]+))?'
FORM: Final = re.compile(
    rf"""\s*(?P<copy>copy\s*\(\s*)?subscribe\s+(?:to\s+)?(?P<view>{NAME})
    (?:\s+with\s*\((?P<options>[^)]*)\))?(?:\s+as\s+of\s+(?P<epoch>\d+))?\s*
    (?(copy)\)\s*to\s+stdout\s*)(?:;\s*)?""",
    re.IGNORECASE | re.VERBOSE,
)
OPTION: Final = re.compile(r"\s*(\w+)\s*(?:=\s*)?(true|false|on|off)?\s*", re.IGNORECASE)
MOST_WAITING: Final = 1 << 26
"""Bytes of changes that may wait for a client before it is cut off, besides what its connection takes."""
PORTION: Final = 2_000
"""Rows of the contents that are sent in one go."""
Row = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A SUBSCRIBE; ``copies`` if it stands in a COPY."""

    view: str
    snapshot: bool
    progress: bool
    epoch: int | None
    copies: bool
    span: Span


def read(text: str) -> Subscribe | None:
    """The SUBSCRIBE that a text is; None if it is another statement."""
    if "subscribe" not in text.lower():
        return None
    found = FORM.fullmatch(text)
    if found is None:
        if re.match(r"\s*(copy\s*\(\s*)?subscribe\b", text, re.IGNORECASE) is None:
            return None
        hint = "SUBSCRIBE view [WITH (SNAPSHOT, PROGRESS)] [AS OF epoch]"
        raise ProgrammingError("SUBSCRIBE cannot be read", span=Span(text, 0, len(text)), hint=hint)
    options = _options(text, found)
    epoch = None if found["epoch"] is None else int(found["epoch"])
    view = re.sub(r'"((?:[^"]|"")*)"', lambda part: part[1].replace('""', '"'), found["view"])
    span = Span(text, 0, len(text.rstrip().rstrip(";")))
    snapshot, progress = options.get("snapshot", True), options.get("progress", False)
    return Subscribe(view, snapshot, progress, epoch, found["copy"] is not None, span)


def _options(text: str, found: "re.Match[str]") -> dict[str, bool]:
    options: dict[str, bool] = {}
    given = found["options"]
    for part in given.split(",") if given else ():
        option = OPTION.fullmatch(part)
        if option is None or option[1].lower() not in ("snapshot", "progress"):
            span = Span(text, found.start("options"), found.end("options"))
            raise ProgrammingError(
                f"SUBSCRIBE has no option {part.strip()}", span=span, hint="SNAPSHOT and PROGRESS"
            )
        options[option[1].lower()] = (option[2] or "true").lower() in ("true", "on")
    return options


def rows_told(statement: Subscribe, changes: Iterable[Change]) -> Iterable[tuple[Any, ...]]:
    """Changes as the rows of a SUBSCRIBE."""
    marks = (False,) if statement.progress else ()
    return ((time, *marks, diff, *row) for row, time, diff in changes)


def progress_row(engine: Engine, types: Sequence[Type]) -> tuple[Any, ...]:
    """The row that says that everything up to now has been told."""
    return (engine.executor.epoch + 1, True, *[None] * (len(types) - 2))


def tell_before(view: Maintained, statement: Subscribe, tell: Callable[[list[Change]], None]) -> None:
    """What a subscriber is told first: what changed since its epoch, or all that there is, if it asked."""
    if statement.epoch is not None:
        tell(view.feed.since(view.name, statement.epoch))
    elif statement.snapshot:
        tell(view.feed.snapshot())


def shape_of(engine: Engine, statement: Subscribe) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """The columns that a SUBSCRIBE gives; None for one in a COPY."""
    if statement.copies:
        return None
    view = engine.view(statement.view)
    head = {"epoch": BIGINT, "progressed": BOOLEAN, "diff": BIGINT}
    if not statement.progress:
        del head["progressed"]
    return (*head, *view.reader.names), (*head.values(), *view.reader.visible_types)


def check_followed(engine: Engine, view: Maintained | None, name: str) -> None:
    """ProgrammingError if a view is not the one any more that is followed, or may not be read any more."""
    if view is None or not view.live:
        error = ProgrammingError(f"view {name} was dropped or replaced", hint="subscribe again")
        error.sqlstate = "55000"
        raise error
    check_relation(engine.catalog, name)


class Stream:
    """The changes of one view on their way to one client: told on the engine's thread, sent on the loop's."""

    def __init__(self, statement: Subscribe, formats: int, loop: asyncio.AbstractEventLoop) -> None:
        self._statement = statement
        self._format = formats
        self._loop = loop
        self._queue: asyncio.Queue[list[Row] | Spool | BaseException] = asyncio.Queue()
        self._contents: Spool | None = None
        self._waiting = 0
        self._subscription: Subscription | None = None
        self._view: Maintained | None = None
        self._writers: list[tuple[Any, Writer]] = []
        self.names: tuple[str, ...] = ()
        self.types: tuple[Type, ...] = ()

    def open(self, engine: Engine) -> None:
        """Begin to listen, on the engine's thread."""
        check_relation(engine.catalog, self._statement.view)
        view = engine.view(self._statement.view)
        shape = shape_of(engine, replace(self._statement, copies=False))
        assert shape is not None
        self.names, self.types = shape
        make = writer_of if self._format else text_writer
        self._writers = [(codec_of(type_).from_python, make(type_)) for type_ in self.types]
        self._view = view
        if self._statement.epoch is None:
            tell_before(view, self._statement, self._begin)
        else:
            tell_before(view, self._statement, self._tell)
        if self._statement.progress:
            self.progress(engine)
        self._subscription = view.feed.subscribe(self._tell)

    def close(self, _: Engine) -> None:
        """Listen no more, on the engine's thread."""
        if self._subscription is not None:
            self._subscription.close()

    def beat(self, engine: Engine) -> None:
        """Look whether the view is still there, and say how far it is if that is wanted: as its client."""
        check_followed(engine, self._view, self._statement.view)
        if self._statement.progress:
            self.progress(engine)

    def progress(self, engine: Engine) -> None:
        """Say that everything up to now has been told, on the engine's thread."""
        self._put([self._row(progress_row(engine, self.types))])

    async def next(self) -> list[Row]:
        """Rows to send, once there are some; OperationalError for a client that is too slow."""
        while True:
            if self._contents is not None and (rows := self._contents.next()) is not None:
                return list(rows)
            self._contents = None
            item = await self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, list):
                self._waiting -= size_of(item)
                return item
            self._contents = item

    def _begin(self, changes: list[Change]) -> None:
        """Have the contents be sent, however much that is."""
        told = map(self._row, rows_told(self._statement, changes))
        if changes:
            portions = iter(lambda: list(islice(told, PORTION)), [])
            self._loop.call_soon_threadsafe(self._queue.put_nowait, Spool(portions))

    def _tell(self, changes: list[Change]) -> None:
        if changes:
            self._put([self._row(row) for row in rows_told(self._statement, changes)])

    def _row(self, values: Iterable[Any]) -> Row:
        pairs = zip(values, self._writers, strict=True)
        return tuple(None if value is None else write(take(value)) for value, (take, write) in pairs)

    def _put(self, rows: list[Row]) -> None:
        self._waiting += size_of(rows)
        item: list[Row] | BaseException = rows
        if self._waiting > MOST_WAITING:
            message = f"the subscription is cut off: {MOST_WAITING >> 20} MB of changes wait for the client"
            item = OperationalError(message, hint="SUBSCRIBE again, AS OF the last epoch that came")
            if self._subscription is not None:
                self._subscription.close()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, item)


def size_of(rows: list[Row]) -> int:
    """About how many bytes rows take."""
    return sum(8 * len(row) + sum(len(field) for field in row if field is not None) for row in rows)


def copied(row: Row) -> bytes:
    """A row as a line of COPY's text format."""
    return b"\t".join(rb"\N" if field is None else _escaped(field) for field in row) + b"\n"


def _escaped(field: bytes) -> bytes:
    for raw, written in ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\n", rb"\n"), (b"\r", rb"\r")):
        field = field.replace(raw, written)
    return field
