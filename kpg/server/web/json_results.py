"""JSON encoding of results, errors and subscriptions.

Values are the texts that Postgres prints, with these exceptions: integers and floats are JSON
numbers, JSON is embedded as is, and NULL is null. Integers beyond 2**53, NaN, infinities and
NUMERIC stay texts, since JavaScript would lose digits.

A subscription sends, in this order: a message with ``columns``; the snapshot, in messages whose
``snapshot`` is false except in the last one; and one message per epoch with changes. ``changes``
holds pairs of a diff (1 for an inserted row, -1 for a deleted one) and a row. ``progress`` is the
epoch up to which all changes have been sent. Subscriptions are to a view or to the answer of a
Datalog goal.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.api.result import Result
from kpg.compiler.sql.frontend import check_relation
from kpg.postgres.sqlstate import sqlstate_of, violation_fields
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DatalogError, Error, IntegrityError, InterfaceError, ProgrammingError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec_of
from kpg.server.binary_format import text_writer
from kpg.server.portal import encode_result
from kpg.server.subscribe import check_view
from kpg.session.subscriptions import Change

if TYPE_CHECKING:
    from kpg.api.view import MaintainedView
    from kpg.datalog import dispatch as datalog_dispatch
    from kpg.session.engine import Engine
else:
    datalog_dispatch = LazyModule("kpg.datalog.dispatch")

CHUNK_ROWS: Final = 2_000
"""Rows that are encoded at a time, so that other tasks run in between."""


ARROW: Final = "application/vnd.apache.arrow.stream"
VIOLATION_FIELDS: Final = {"s": "schema_name", "t": "table_name", "c": "column_name", "n": "constraint_name"}
"""JSON names of the wire protocol's fields of a constraint violation."""
MAX_SAFE_INTEGER: Final = 2**53
FLOATS: Final = (Kind.REAL, Kind.DOUBLE)
STATUS_BY_SQLSTATE: Final = (
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
"""HTTP statuses by prefix of the SQLSTATE; the first match counts."""


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    state = sqlstate_of(error)
    return next(status for prefix, status in STATUS_BY_SQLSTATE if state.startswith(prefix))


def error_fields(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON data; ``position`` counts characters from 1."""
    fields: dict[str, Any] = {"sqlstate": sqlstate_of(error)}
    if not isinstance(error, Error):
        return fields | {"message": f"{type(error).__name__}: {error}"}
    fields["message"] = error.message
    if error.hint is not None:
        fields["hint"] = error.hint
    if error.span is not None:
        span = error.span
        place = {"position": span.start + 1, "length": span.end - span.start}
        fields |= {**place, "line": span.line, "column": span.column, "excerpt": span.excerpt()}
    if isinstance(error, IntegrityError):
        fields |= {VIOLATION_FIELDS[name]: text for name, text in violation_fields(error).items()}
    if isinstance(error, DatalogError):
        fields["diagnostics"] = [one.text() for one in error.diagnostics]
    return fields


def column_fields(names: Sequence[str], types: Sequence[Type]) -> list[dict[str, str]]:
    """Return columns as JSON data."""
    return [{"name": name, "type": str(type_)} for name, type_ in zip(names, types, strict=True)]


def encode_value(field: bytes | None, type_: Type) -> str:
    """Return a value's text as JSON."""
    if field is None:
        return "null"
    text = field.decode()
    kind = type_.kind
    if type_.is_integer:
        return (
            text
            if kind is not Kind.BIGINT or -MAX_SAFE_INTEGER <= int(text) <= MAX_SAFE_INTEGER
            else f'"{text}"'
        )
    if kind is Kind.BOOLEAN:
        return "true" if text.startswith("t") else "false"
    if kind in FLOATS:
        return text if text[-1].isdigit() else f'"{text}"'
    return text if kind in (Kind.JSON, Kind.JSONB) else json.dumps(text)


def encode_row(row: Sequence[bytes | None], types: Sequence[Type]) -> str:
    """Return a row as a JSON array."""
    return "[" + ",".join(map(encode_value, row, types)) + "]"


def encode_rows(outcome: Result, dictionary: Dictionary, limit: int | None) -> Iterator[bytes]:
    """Yield the rows of a result as JSON arrays separated by commas, in chunks."""
    types, formats = outcome.types, [0] * len(outcome.types)
    count = len(outcome) if limit is None else min(limit, len(outcome))
    for start in range(0, count, CHUNK_ROWS):
        rows = encode_result(outcome, start, min(count, start + CHUNK_ROWS), formats, dictionary)
        yield (",".join(encode_row(row, types) for row in rows)).encode()


def encode_arrow(outcome: Result, limit: int | None) -> bytes:
    """Return the rows of a result, or the first ``limit``, as an Arrow stream."""
    import pyarrow  # lazy: pyarrow takes long to import

    table = outcome.arrow() if limit is None else outcome.arrow().slice(0, limit)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


RESUME_TOKEN: Final = re.compile("[0-9a-f]{1,32}-[0-9]{1,18}")
SubscriptionMessage = tuple[str, int | None, bytes]
"""Kind, epoch and JSON fields. The epoch is None unless all its changes have been sent."""


class MessageSink(Protocol):
    """Destination of a subscription's messages."""

    def send(self, message: SubscriptionMessage) -> None:
        """Send a message after the previous ones."""

    def send_all(self, messages: Iterable[SubscriptionMessage]) -> None:
        """Spool and send any number of messages, which are iterated once."""


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A subscription to a view, or to a goal with its parameters."""

    view: str = ""
    goal: str = ""
    parameters: dict[str, Any] | None = None
    snapshot: bool = True
    progress: bool = False
    as_of: int | None = None
    seen: str = ""
    """Resume token of the last message. Unlike ``as_of``, an unusable token starts a new snapshot."""


def resume_token(run_id: str, epoch: int) -> str:
    """Return the token from which a subscriber resumes after an epoch.

    It names the run of the server, because in-memory databases restart their epochs with each run.
    """
    return f"{run_id}-{epoch}"


def epoch_of_token(token: str, run_id: str) -> int | None:
    """Return the epoch of a token of this run; None for other texts."""
    token_run, _, epoch = token.rpartition("-")
    return int(epoch) if token_run == run_id else None


def parse_subscription(fields: dict[str, Any]) -> SubscriptionRequest:
    """Return the subscription with these fields. InterfaceError if they are invalid."""
    kinds: dict[str, type] = {
        "view": str,
        "goal": str,
        "parameters": dict,
        "snapshot": bool,
        "progress": bool,
        "as_of": int,
        "seen": str,
    }
    if isinstance(fields.get("seen"), str) and not RESUME_TOKEN.fullmatch(fields["seen"]):
        raise InterfaceError("seen of a subscription is invalid", hint="LIFE-EPOCH, or the id of an event")
    for name, value in fields.items():
        if name not in kinds:
            raise InterfaceError(f"a subscription has no field {name!r}", hint=", ".join(kinds))
        if not isinstance(value, kinds[name]) or (kinds[name] is int and isinstance(value, bool)):
            raise InterfaceError(f"{name} of a subscription is of another type")
    if bool(fields.get("view")) == bool(fields.get("goal")):
        raise InterfaceError("a subscription is to a view, or to a goal")
    return SubscriptionRequest(**fields)


class ChangeEncoder:
    """Encodes changes of a view as JSON, those of one commit once for all its subscriptions."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = types
        self._writers = [(codec_of(type_).from_python, text_writer(type_), type_) for type_ in types]
        self._last: object = None
        self._encoded: list[tuple[int, bytes]] = []

    def encode_epochs(self, changes: list[Change]) -> list[tuple[int, bytes]]:
        """Return a message for each epoch."""
        if changes is not self._last:
            parts = [(epoch, list(group)) for epoch, group in groupby(changes, lambda change: change[1])]
            self._encoded = [(epoch, self.encode_message(epoch, part)) for epoch, part in parts]
            self._last = changes
        return self._encoded

    def encode_message(self, epoch: int, changes: Sequence[Change], fields: str = "") -> bytes:
        """Return the message of the changes of one epoch, with additional fields."""
        rows = ",".join(f"[{diff},{self._encode_row(row)}]" for row, _, diff in changes)
        return f'"epoch":{epoch},{fields}"changes":[{rows}]'.encode()

    def _encode_row(self, row: Sequence[Any]) -> str:
        fields = (
            "null" if value is None else encode_value(write(encode(value)), type_)
            for value, (encode, write, type_) in zip(row, self._writers, strict=True)
        )
        return "[" + ",".join(fields) + "]"


class JsonSubscription:
    """A subscription, used on the engine's thread."""

    def __init__(
        self,
        request: SubscriptionRequest,
        encoders: "dict[MaintainedView, ChangeEncoder]",
        run_id: str,
        sink: MessageSink,
    ) -> None:
        """Create a closed subscription; ``encoders`` is shared by all subscriptions of a server."""
        self._request = request
        self._encoders, self._run_id = encoders, run_id
        self._sink = sink
        self._closers: list[Callable[[], object]] = []
        self._check: Callable[[Engine], object] = lambda engine: None
        self.closed = False

    def open(self, engine: "Engine") -> None:
        """Send the columns and the snapshot, and then every change. Does nothing after :meth:`close`."""
        if self.closed:
            return
        try:
            if self._request.view:
                check_relation(engine.catalog, self._request.view)
                self._open_view(engine, maintained_view(engine, self._request.view))
            else:
                self._open_goal(engine)
        except BaseException:
            self.close()
            raise

    def close(self, _: object = None) -> None:
        """Stop sending. May be called twice."""
        self.closed = True
        while self._closers:
            self._closers.pop()()

    def send_heartbeat(self, engine: "Engine") -> None:
        """Check that the view exists and may be read, and send the progress if requested.

        Called with the subscriber's privileges. ProgrammingError ends the subscription.
        """
        try:
            self._check(engine)
        except BaseException:
            self.close()
            raise
        if self._request.progress:
            epoch = engine.executor.epoch
            self._sink.send(("progress", epoch, f'"progress":{epoch}'.encode()))

    def _open_view(self, engine: "Engine", view: "MaintainedView") -> None:
        request, feed = self._request, view.feed
        encoder = self._encoders.get(view)
        if encoder is None:
            for dropped_view in [one for one in self._encoders if not one.is_live]:
                del self._encoders[dropped_view]
            encoder = self._encoders[view] = ChangeEncoder(view.reader.visible_types)
        self._send_columns(view.reader.names, view.reader.visible_types)
        since = request.as_of if request.as_of is not None else epoch_of_token(request.seen, self._run_id)
        missed_changes: list[Change] | None = None
        if since is not None:
            try:
                if since > engine.executor.epoch:
                    raise ProgrammingError(f"epoch {since} is in the future")
                missed_changes = (
                    [] if since == engine.executor.epoch else feed.changes_since(view.name, since)
                )
            except Error:
                if request.as_of is not None:
                    raise
        if missed_changes is not None:
            self._send_changes(encoder, missed_changes)
        elif request.snapshot:
            self._send_snapshot(engine, encoder, feed.snapshot())
        self._closers.append(feed.subscribe(lambda changes: self._send_changes(encoder, changes)).close)
        self._check = lambda engine: check_view(engine, view, request.view)
        self.send_heartbeat(engine)

    def _open_goal(self, engine: "Engine") -> None:
        request = self._request
        if request.as_of is not None:
            raise InterfaceError("as_of is not supported for goals", hint="subscribe without as_of")
        goal = datalog_dispatch.prepare(engine, lambda: _check_open(engine), request.goal)
        self._closers.append(goal.drop)
        types = goal.types
        encoder = ChangeEncoder(types)
        self._send_columns(goal.columns, types)
        self._check = lambda _: goal.check()
        answers = goal.subscribe(
            lambda changes: self._send_changes(encoder, changes), **(request.parameters or {})
        )
        self._closers.append(answers.close)
        first = list(answers.changes())
        if request.snapshot:
            self._send_snapshot(engine, encoder, first)
        self.send_heartbeat(engine)

    def _send_columns(self, names: Sequence[str], types: Sequence[Type]) -> None:
        columns = json.dumps(column_fields(names, types))
        self._sink.send(("columns", None, f'"columns":{columns},"life":"{self._run_id}"'.encode()))

    def _send_snapshot(self, engine: "Engine", encoder: ChangeEncoder, changes: list[Change]) -> None:
        self._sink.send_all(_snapshot_messages(engine.executor.epoch, encoder, changes))

    def _send_changes(self, encoder: ChangeEncoder, changes: list[Change]) -> None:
        for epoch, message in encoder.encode_epochs(changes):
            self._sink.send(("changes", epoch, message))


def _snapshot_messages(
    epoch: int, encoder: ChangeEncoder, changes: Sequence[Change]
) -> Iterator[SubscriptionMessage]:
    """Yield the messages of a snapshot; one for an empty snapshot."""
    for start in range(0, max(1, len(changes)), CHUNK_ROWS):
        last = start + CHUNK_ROWS >= len(changes)
        flag = '"snapshot":true,' if last else '"snapshot":false,'
        message = encoder.encode_message(epoch, changes[start : start + CHUNK_ROWS], flag)
        yield "snapshot", epoch if last else None, message


def maintained_view(engine: "Engine", name: str) -> "MaintainedView":
    """Return the view of a name. A Datalog relation becomes a maintained view."""
    if engine.dataflows and name in engine.catalog:
        qualified_name = engine.catalog.get(name).name
        program = datalog_dispatch.deriving_program(engine, qualified_name)
        if program is not None:
            program[qualified_name]
    return engine.view(name)


def _check_open(engine: "Engine") -> None:
    if engine.closed:
        raise InterfaceError("the database is closed")
