"""Streams that outlast a reply: COPY in, COPY out, and SUBSCRIBE.

A binary COPY stream is a header, then for each row the number of fields and each field with its length, then
an end marker.
"""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pygwire import ConnectionPhase as Phase
from pygwire import messages as wire

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.copy import BINARY
from kpg.execute.changes.copy import Lines, copied_types
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import CanceledError, DataError, OperationalError
from kpg.runtime.types import Type
from kpg.server import binary_input
from kpg.server import messages as replies
from kpg.server.interfaces import ClientConnection
from kpg.server.messages import NULL_FIELD, Pace, copy_data
from kpg.server.portal import Portal, encoded
from kpg.server.subscribe import Stream, Subscribe
from kpg.server.subscribe import copied as line_of

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
HEAD: Final = SIGNATURE + struct.pack("!ii", 0, 0)
END: Final = b"\xff\xff"
LARGE_FLAGS: Final = 0xFFFF0000
"""Flags that a reader has to know."""
ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def text_of(data: bytes, types: Sequence[Type]) -> str:
    """The same rows as lines of COPY's text form; DataError if they are malformed."""
    try:
        return "".join(_lines(memoryview(data), types))
    except (struct.error, IndexError) as error:
        raise DataError(f"COPY brings rows that cannot be read: {error}") from None


def _lines(data: memoryview, types: Sequence[Type]) -> Iterator[str]:
    if bytes(data[: len(SIGNATURE)]) != SIGNATURE:
        raise DataError("COPY file signature not recognized")
    flags, more = struct.unpack_from("!Ii", data, len(SIGNATURE))
    if flags & LARGE_FLAGS or more < 0:
        raise DataError("invalid COPY file header")
    place = len(HEAD) + more
    # The end may be left out: then that of the data is the rows'.
    while place < len(data):
        (count,) = struct.unpack_from("!h", data, place)
        place += 2
        if count == -1:
            return
        if count != len(types):
            raise DataError(f"row field count is {count}, expected {len(types)}")
        fields = []
        for type_ in types:
            (length,) = struct.unpack_from("!i", data, place)
            place += 4
            if length < -1 or place + length > len(data):
                raise DataError("unexpected end of the rows of COPY")
            if length == -1:
                fields.append(r"\N")
                continue
            fields.append(binary_input.text_of(bytes(data[place : place + length]), type_).translate(ESCAPES))
            place += length
        yield "\t".join(fields) + "\n"


def messages(outcome: Result, dictionary: Dictionary) -> Iterator[bytes]:
    """The rows of a result as CopyData, one each, many at a time; the head is a part of the first."""
    width = struct.pack("!h", len(outcome.types))
    head = HEAD
    pace, start = Pace(), 0
    while start < len(outcome):
        rows = encoded(outcome, start, start + pace.rows, [1] * len(outcome.types), dictionary)
        out = []
        for row in rows:
            fields = (NULL_FIELD if field is None else struct.pack("!i", len(field)) + field for field in row)
            out.append(copy_data(head + width + b"".join(fields)))
            head = b""
        start += len(rows)
        data = b"".join(out)
        pace.took(len(rows), len(data))
        yield data
    yield copy_data(head + END)


MOST_COPIED: Final = 1 << 30
"""Bytes that one COPY may bring: they are in memory until all of them have come."""
HEARTBEAT: Final = 1.0
"""Seconds after which a subscription with PROGRESS says how far it is, and any looks for its client."""
COPY_DONE: Final = wire.CopyDone().to_wire()


async def copy_in(client: ClientConnection, statement: ast.CopyFrom) -> ast.CopyFrom:
    """The statement with what the client sends for it; DataError if the client gives up."""
    types = await client.engine(lambda engine: copied_types(engine, statement))
    form = int(statement.format == BINARY)
    client.send(wire.CopyInResponse(overall_format=form, col_formats=[form] * len(types)).to_wire())
    client.phase(Phase.COPY_IN)
    await client.flush()
    data = bytearray()
    try:
        while True:
            match await client.receive():
                case wire.CopyData(data=part):
                    client.check_canceled()
                    data += part
                    if len(data) > MOST_COPIED:
                        raise OperationalError(
                            f"COPY brings more than {MOST_COPIED >> 30} GB", hint="copy it in portions"
                        )
                case wire.CopyDone():
                    break
                case wire.CopyFail(error_message=reason):
                    raise DataError(f"COPY from stdin failed: {reason}")
                case wire.Flush() | wire.Sync():
                    pass
                case _:
                    raise DataError("COPY from stdin was interrupted by another message")
    finally:
        client.phase(Phase.READY)
    if form:
        return replace(statement, text=text_of(bytes(data), types), format="text")
    return replace(statement, text=binary_input.text_in(bytes(data)))


async def copied_out(client: ClientConnection, portal: Portal) -> bool:
    """Send what a COPY TO STDOUT gives; whether it was one."""
    statement, outcome = portal.statement, portal.outcome
    if not isinstance(statement, ast.CopyTo) or statement.path or outcome is None:
        return False
    if statement.format == BINARY:
        client.send(replies.complete(f"COPY {await copy_out_binary(client, outcome)}"))
        return True
    client.send(replies.complete(f"COPY {await copy_out(client, outcome)}"))
    return True


async def copy_out_binary(client: ClientConnection, outcome: Result) -> int:
    """Send the rows of a COPY TO STDOUT in binary form; how many."""
    client.send(wire.CopyOutResponse(overall_format=1, col_formats=[1] * len(outcome.types)).to_wire())
    for data in messages(outcome, client.server.hub.engine.executor.dictionary):
        client.send(data)
        await client.give_way()
    client.send(COPY_DONE)
    return len(outcome)


async def copy_out(client: ClientConnection, outcome: Result) -> int:
    """Send the lines of a COPY TO STDOUT; how many rows."""
    lines = outcome.contents
    assert isinstance(lines, Lines)
    columns = [0] * len(lines.rows.types)
    client.send(wire.CopyOutResponse(overall_format=0, col_formats=columns).to_wire())
    pace, place = Pace(), 0
    while place < len(lines):
        part = lines.part(place, place + pace.rows)
        data = b"".join(replies.copy_data(f"{line}\n".encode()) for (line,) in part)
        place += len(part)
        pace.took(len(part), len(data))
        client.send(data)
        await client.give_way()
    client.send(COPY_DONE)
    return len(lines.rows)


async def subscribe(client: ClientConnection, statement: Subscribe, form: int, *, describe: bool) -> None:
    """Send a view's changes until the client cancels, which ends it with an error, or goes."""
    stream = Stream(statement, form, asyncio.get_running_loop())
    await client.engine(stream.open)
    try:
        if statement.copies:
            client.send(wire.CopyOutResponse(overall_format=0, col_formats=[0] * len(stream.types)).to_wire())
        elif describe:
            client.send(replies.description(stream.names, stream.types, [form] * len(stream.types)))
        await client.flush()
        await _forward(client, stream, statement)
    finally:
        # Not as the session, which may be cancelled: then it would not be done.
        await client.server.look(stream.close)


async def _forward(client: ClientConnection, stream: Stream, statement: Subscribe) -> None:
    client.canceled.clear()
    client.busy = False
    waiting = asyncio.ensure_future(client.canceled.wait())
    coming = asyncio.ensure_future(stream.next())
    loop, session = asyncio.get_running_loop(), client.session
    assert session is not None
    beaten = loop.time()
    try:
        while not waiting.done():
            await asyncio.wait((waiting, coming), timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                rows = coming.result()
                coming = asyncio.ensure_future(stream.next())
                lines = b"".join(replies.copy_data(line_of(row)) for row in rows)
                client.send(lines if statement.copies else replies.data(rows))
                await client.flush()
            if not waiting.done() and loop.time() - beaten >= HEARTBEAT:
                beaten = loop.time()
                client.check_there()
                await client.server.look_as(session, stream.beat)
    finally:
        waiting.cancel()
        coming.cancel()
    raise CanceledError("canceling statement due to user request")
