"""JSON encoding of results, errors and subscriptions.

Values are the texts that Postgres prints, except: integers and floats are JSON numbers, JSON is embedded
as is, and NULL is null. Integers beyond 2**53, NaN, infinities and NUMERIC stay texts, since JavaScript
would lose digits.

A subscription sends, in this order: a message with ``columns``; the snapshot, in messages whose ``snapshot``
is false except in the last one; and one message per epoch with changes. ``changes`` holds pairs of a
multiplicity (1 for an inserted row, -1 for a deleted one) and a row. ``progress`` is the epoch up to which
all changes have been sent. Subscriptions follow a view or the answer of a Datalog goal.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.api.result import Result
from kpg.compiler.sql.frontend import check_relation
from kpg.postgres.sqlstate import fields_of, state_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DatalogError, Error, IntegrityError, InterfaceError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec_of
from kpg.server.binary_format import text_writer
from kpg.server.portal import encoded
from kpg.server.subscribe import check_followed
from kpg.session.subscriptions import Change

if TYPE_CHECKING:
    from kpg.api.view import Maintained
    from kpg.session.engine import Engine

PORTION: Final = 2_000
"""Rows that are spelled in one go, so that others have their turn in between."""


ARROW: Final = "application/vnd.apache.arrow.stream"
VIOLATED: Final = {"s": "schema_name", "t": "table_name", "c": "column_name", "n": "constraint_name"}
"""What fields of the wire protocol's errors are called in JSON."""
SAFE: Final = 2**53
FLOATS: Final = (Kind.REAL, Kind.DOUBLE)
STATUSES: Final = (
    ("28", 401),
    ("42501", 403),
    ("40", 409),
    ("23505", 409),
    ("23503", 409),
    ("57014", 408),
    ("0A", 501),
    ("53", 503),
    ("XX", 500),
    ("58", 500),
    ("", 400),
)
"""The status of an answer by how its SQLSTATE begins."""


def status_of(error: BaseException) -> int:
    """The HTTP status of an error."""
    state = state_of(error)
    return next(status for begin, status in STATUSES if state.startswith(begin))


def error_of(error: BaseException) -> dict[str, Any]:
    """An error as data: what, where (``position`` counts characters from 1) and what to do."""
    found: dict[str, Any] = {"sqlstate": state_of(error)}
    if not isinstance(error, Error):
        return found | {"message": f"{type(error).__name__}: {error}"}
    found["message"] = error.message
    if error.hint is not None:
        found["hint"] = error.hint
    if error.span is not None:
        span = error.span
        place = {"position": span.start + 1, "length": span.end - span.start}
        found |= {**place, "line": span.line, "column": span.column, "excerpt": span.excerpt()}
    if isinstance(error, IntegrityError):
        found |= {VIOLATED[name]: text for name, text in fields_of(error).items()}
    if isinstance(error, DatalogError):
        found["diagnostics"] = [one.text() for one in error.diagnostics]
    return found


def columns_of(names: Sequence[str], types: Sequence[Type]) -> list[dict[str, str]]:
    """Columns as data."""
    return [{"name": name, "type": str(type_)} for name, type_ in zip(names, types, strict=True)]


def spelled(field: bytes | None, type_: Type) -> str:
    """A value's text as JSON."""
    if field is None:
        return "null"
    text = field.decode()
    kind = type_.kind
    if type_.is_integer:
        return text if kind is not Kind.BIGINT or -SAFE <= int(text) <= SAFE else f'"{text}"'
    if kind is Kind.BOOLEAN:
        return "true" if text.startswith("t") else "false"
    if kind in FLOATS:
        return text if text[-1].isdigit() else f'"{text}"'
    return text if kind in (Kind.JSON, Kind.JSONB) else json.dumps(text)


def row_of(row: Sequence[bytes | None], types: Sequence[Type]) -> str:
    """A row as a JSON array."""
    return "[" + ",".join(map(spelled, row, types)) + "]"


def portions(outcome: Result, dictionary: Dictionary, most: int | None) -> Iterator[bytes]:
    """The rows of a result as JSON arrays between commas, some at a time."""
    types, formats = outcome.types, [0] * len(outcome.types)
    count = len(outcome) if most is None else min(most, len(outcome))
    for start in range(0, count, PORTION):
        rows = encoded(outcome, start, min(count, start + PORTION), formats, dictionary)
        yield (",".join(row_of(row, types) for row in rows)).encode()


def arrow_of(outcome: Result, most: int | None) -> bytes:
    """The rows of a result, or the first of them, as a stream in Arrow's format."""
    import pyarrow  # lazy: it takes long to import

    table = outcome.arrow() if most is None else outcome.arrow().slice(0, most)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


MARK: Final = re.compile("[0-9a-f]{1,32}-[0-9]{1,18}")
Told = tuple[str, int | None, bytes]
"""Its kind, the epoch up to which all has been told with it, if it has, and its JSON."""


class Sending(Protocol):
    """Where messages go."""

    def send(self, message: Told) -> None:
        """Have a message follow those before."""

    def send_all(self, messages: Iterable[Told]) -> None:
        """Have messages follow, however many there are: they are asked for once, and kept."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be subscribed to: a view, or a goal with its parameters."""

    view: str = ""
    goal: str = ""
    parameters: dict[str, Any] | None = None
    snapshot: bool = True
    progress: bool = False
    as_of: int | None = None
    seen: str = ""
    """The mark of what came last: as ``as_of``, but begun anew if that is not kept, or of another life."""


def mark_of(life: str, epoch: int) -> str:
    """What a subscriber gives back to go on behind an epoch: epochs in memory begin anew with each life."""
    return f"{life}-{epoch}"


def epoch_of(mark: str, life: str) -> int | None:
    """The epoch of a mark of this life; None for any other text."""
    known, _, epoch = mark.rpartition("-")
    return int(epoch) if known == life else None


def wanted_of(fields: dict[str, Any]) -> Wanted:
    """What is asked for; InterfaceError if that is nothing that there could be."""
    kinds: dict[str, type] = {
        "view": str,
        "goal": str,
        "parameters": dict,
        "snapshot": bool,
        "progress": bool,
        "as_of": int,
        "seen": str,
    }
    if isinstance(fields.get("seen"), str) and not MARK.fullmatch(fields["seen"]):
        raise InterfaceError("seen of a subscription is no mark", hint="LIFE-EPOCH, or the id of an event")
    for name, value in fields.items():
        if name not in kinds:
            raise InterfaceError(f"a subscription has no field {name!r}", hint=", ".join(kinds))
        if not isinstance(value, kinds[name]) or (kinds[name] is int and isinstance(value, bool)):
            raise InterfaceError(f"{name} of a subscription is of another type")
    if bool(fields.get("view")) == bool(fields.get("goal")):
        raise InterfaceError("a subscription is to a view, or to a goal")
    return Wanted(**fields)


class Spelling:
    """Changes as JSON; those of one commit are spelled once, however many are told of them."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = types
        self._writers = [(codec_of(type_).from_python, text_writer(type_), type_) for type_ in types]
        self._last: object = None
        self._spelled: list[tuple[int, bytes]] = []

    def epochs(self, changes: list[Change]) -> list[tuple[int, bytes]]:
        """A message for each epoch."""
        if changes is not self._last:
            parts = [(epoch, list(group)) for epoch, group in groupby(changes, lambda change: change[1])]
            self._spelled = [(epoch, self.message(epoch, part)) for epoch, part in parts]
            self._last = changes
        return self._spelled

    def message(self, epoch: int, changes: Sequence[Change], more: str = "") -> bytes:
        """The message of some changes."""
        listed = ",".join(f"[{diff},{self._row(row)}]" for row, _, diff in changes)
        return f'"epoch":{epoch},{more}"changes":[{listed}]'.encode()

    def _row(self, row: Sequence[Any]) -> str:
        fields = (
            "null" if value is None else spelled(write(take(value)), type_)
            for value, (take, write, type_) in zip(row, self._writers, strict=True)
        )
        return "[" + ",".join(fields) + "]"


class Watch:
    """One subscription, used on the engine's thread."""

    def __init__(
        self, wanted: Wanted, spellings: "dict[Maintained, Spelling]", life: str, sending: Sending
    ) -> None:
        """A server's subscriptions share its ``spellings`` and the ``life`` in their marks."""
        self._wanted = wanted
        self._spellings, self._life = spellings, life
        self._sending = sending
        self._close: list[Callable[[], object]] = []
        self._check: Callable[[Engine], object] = lambda engine: None
        self.closed = False

    def open(self, engine: "Engine") -> None:
        """Begin: tell the columns and what there is, and then what changes; not if it has been closed."""
        if self.closed:
            return
        try:
            if self._wanted.view:
                check_relation(engine.catalog, self._wanted.view)
                self._open_view(engine, maintained_of(engine, self._wanted.view))
            else:
                self._open_goal(engine)
        except BaseException:
            self.close()
            raise

    def close(self, _: object = None) -> None:
        """Tell nothing any more; twice is allowed."""
        self.closed = True
        while self._close:
            self._close.pop()()

    def beat(self, engine: "Engine") -> None:
        """Say how far it is, if that is wanted; ProgrammingError if what is followed is gone.

        As who subscribed: whoever may not read it any more is told so, and nothing else.
        """
        try:
            self._check(engine)
        except BaseException:
            self.close()
            raise
        if self._wanted.progress:
            epoch = engine.executor.epoch
            self._sending.send(("progress", epoch, f'"progress":{epoch}'.encode()))

    def _open_view(self, engine: "Engine", view: "Maintained") -> None:
        wanted, feed = self._wanted, view.feed
        spelling = self._spellings.get(view)
        if spelling is None:
            for gone in [one for one in self._spellings if not one.live]:
                del self._spellings[gone]
            spelling = self._spellings[view] = Spelling(view.reader.visible_types)
        self._columns(view.reader.names, view.reader.visible_types)
        since = wanted.as_of if wanted.as_of is not None else epoch_of(wanted.seen, self._life)
        before: list[Change] | None = None
        if since is not None:
            try:
                if since > engine.executor.epoch:
                    raise ProgrammingError(f"there has been no epoch {since} yet")
                before = [] if since == engine.executor.epoch else feed.since(view.name, since)
            except Error:
                if wanted.as_of is not None:
                    raise
        if before is not None:
            self._tell(spelling, before)
        elif wanted.snapshot:
            self._snapshot(engine, spelling, feed.snapshot())
        self._close.append(feed.subscribe(lambda changes: self._tell(spelling, changes)).close)
        self._check = lambda engine: check_followed(engine, view, wanted.view)
        self.beat(engine)

    def _open_goal(self, engine: "Engine") -> None:
        from kpg.datalog.dispatch import prepare  # lazy: Datalog loads on first use

        wanted = self._wanted
        if wanted.as_of is not None:
            raise InterfaceError("a goal's answer of the past is not known", hint="subscribe without as_of")
        goal = prepare(engine, lambda: _check_open(engine), wanted.goal)
        self._close.append(goal.drop)
        types = goal.types
        spelling = Spelling(types)
        self._columns(goal.columns, types)
        self._check = lambda _: goal.check()
        answers = goal.subscribe(lambda changes: self._tell(spelling, changes), **(wanted.parameters or {}))
        self._close.append(answers.close)
        first = list(answers.changes())
        if wanted.snapshot:
            self._snapshot(engine, spelling, first)
        self.beat(engine)

    def _columns(self, names: Sequence[str], types: Sequence[Type]) -> None:
        columns = json.dumps(columns_of(names, types))
        self._sending.send(("columns", None, f'"columns":{columns},"life":"{self._life}"'.encode()))

    def _snapshot(self, engine: "Engine", spelling: Spelling, changes: list[Change]) -> None:
        self._sending.send_all(_portions(engine.executor.epoch, spelling, changes))

    def _tell(self, spelling: Spelling, changes: list[Change]) -> None:
        for epoch, message in spelling.epochs(changes):
            self._sending.send(("changes", epoch, message))


def _portions(epoch: int, spelling: Spelling, changes: Sequence[Change]) -> Iterator[Told]:
    """The messages of a snapshot, of which there is one for no rows, too."""
    for start in range(0, max(1, len(changes)), PORTION):
        last = start + PORTION >= len(changes)
        done = '"snapshot":true,' if last else '"snapshot":false,'
        part = spelling.message(epoch, changes[start : start + PORTION], done)
        yield "snapshot", epoch if last else None, part


def maintained_of(engine: "Engine", name: str) -> "Maintained":
    """A view by its name; a Datalog relation is maintained from now on."""
    if engine.dataflows and name in engine.catalog:
        from kpg.datalog.dispatch import program_of  # lazy: Datalog loads on first use

        found = engine.catalog.get(name).name
        program = program_of(engine, found)
        if program is not None:
            program[found]
    return engine.view(name)


def _check_open(engine: "Engine") -> None:
    if engine.closed:
        raise InterfaceError("the database is closed")
