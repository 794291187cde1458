"""Streaming subprotocols: COPY in, COPY out, and SUBSCRIBE.

A binary COPY stream is a header, then for each row the number of fields and each length-prefixed
field, then an end marker.
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
from kpg.execute.changes.copy import CopyLines, column_types
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import CanceledError, DataError, OperationalError
from kpg.runtime.types import Type
from kpg.server import binary_input
from kpg.server import messages as replies
from kpg.server.interfaces import ClientConnection
from kpg.server.messages import NULL_FIELD, ChunkSizer, copy_data
from kpg.server.portal import Portal, encode_result
from kpg.server.subscribe import Stream, Subscribe
from kpg.server.subscribe import copy_line as line_of

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
HEADER: Final = SIGNATURE + struct.pack("!ii", 0, 0)
TRAILER: Final = b"\xff\xff"
CRITICAL_FLAGS: Final = 0xFFFF0000
"""Flags that a reader must support."""
ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def binary_to_text(data: bytes, types: Sequence[Type]) -> str:
    """Return the rows in COPY's text format. DataError if they are malformed."""
    try:
        return "".join(_text_lines(memoryview(data), types))
    except (struct.error, IndexError) as error:
        raise DataError(f"invalid COPY data: {error}") from None


def _text_lines(data: memoryview, types: Sequence[Type]) -> Iterator[str]:
    if bytes(data[: len(SIGNATURE)]) != SIGNATURE:
        raise DataError("COPY file signature not recognized")
    flags, extension_length = struct.unpack_from("!Ii", data, len(SIGNATURE))
    if flags & CRITICAL_FLAGS or extension_length < 0:
        raise DataError("invalid COPY file header")
    position = len(HEADER) + extension_length
    # The end marker is optional.
    while position < len(data):
        (count,) = struct.unpack_from("!h", data, position)
        position += 2
        if count == -1:
            return
        if count != len(types):
            raise DataError(f"row field count is {count}, expected {len(types)}")
        fields = []
        for type_ in types:
            (length,) = struct.unpack_from("!i", data, position)
            position += 4
            if length < -1 or position + length > len(data):
                raise DataError("unexpected end of the rows of COPY")
            if length == -1:
                fields.append(r"\N")
                continue
            fields.append(
                binary_input.binary_to_text(bytes(data[position : position + length]), type_).translate(
                    ESCAPES
                )
            )
            position += length
        yield "\t".join(fields) + "\n"


def binary_messages(outcome: Result, dictionary: Dictionary) -> Iterator[bytes]:
    """Yield the rows of a result as CopyData, one message per row, in chunks."""
    width = struct.pack("!h", len(outcome.types))
    head = HEADER
    sizer, start = ChunkSizer(), 0
    while start < len(outcome):
        rows = encode_result(outcome, start, start + sizer.rows, [1] * len(outcome.types), dictionary)
        out = []
        for row in rows:
            fields = (NULL_FIELD if field is None else struct.pack("!i", len(field)) + field for field in row)
            out.append(copy_data(head + width + b"".join(fields)))
            head = b""
        start += len(rows)
        data = b"".join(out)
        sizer.record_chunk(len(rows), len(data))
        yield data
    yield copy_data(head + TRAILER)


MAX_COPY_BYTES: Final = 1 << 30
"""Bytes of one COPY FROM STDIN, which are held in memory."""
HEARTBEAT: Final = 1.0
"""Seconds between progress rows, and between checks whether the client is connected."""
COPY_DONE: Final = wire.CopyDone().to_wire()


async def copy_in(client: ClientConnection, statement: ast.CopyFrom) -> ast.CopyFrom:
    """Return the statement with the data that the client sends. DataError if the client cancels the COPY."""
    types = await client.run_with_engine(lambda engine: column_types(engine, statement))
    form = int(statement.format == BINARY)
    client.send(wire.CopyInResponse(overall_format=form, col_formats=[form] * len(types)).to_wire())
    client.set_phase(Phase.COPY_IN)
    await client.flush()
    data = bytearray()
    try:
        while True:
            match await client.receive():
                case wire.CopyData(data=part):
                    client.check_canceled()
                    data += part
                    if len(data) > MAX_COPY_BYTES:
                        raise OperationalError(
                            f"COPY exceeds {MAX_COPY_BYTES >> 30} GB", hint="copy the data in parts"
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
        client.set_phase(Phase.READY)
    if form:
        return replace(statement, text=binary_to_text(bytes(data), types), format="text")
    return replace(statement, text=binary_input.decode_text(bytes(data)))


async def send_if_copy(client: ClientConnection, portal: Portal) -> bool:
    """Send the rows of a COPY TO STDOUT. Returns whether the portal is one."""
    statement, outcome = portal.statement, portal.outcome
    if not isinstance(statement, ast.CopyTo) or statement.path or outcome is None:
        return False
    if statement.format == BINARY:
        client.send(replies.command_complete(f"COPY {await copy_out_binary(client, outcome)}"))
        return True
    client.send(replies.command_complete(f"COPY {await copy_out(client, outcome)}"))
    return True


async def copy_out_binary(client: ClientConnection, outcome: Result) -> int:
    """Send the rows of a COPY TO STDOUT in binary format, and return their number."""
    client.send(wire.CopyOutResponse(overall_format=1, col_formats=[1] * len(outcome.types)).to_wire())
    for data in binary_messages(outcome, client.server.session_manager.engine.executor.dictionary):
        client.send(data)
        await client.yield_between_chunks()
    client.send(COPY_DONE)
    return len(outcome)


async def copy_out(client: ClientConnection, outcome: Result) -> int:
    """Send the rows of a COPY TO STDOUT in text format, and return their number."""
    lines = outcome.contents
    assert isinstance(lines, CopyLines)
    columns = [0] * len(lines.rows.types)
    client.send(wire.CopyOutResponse(overall_format=0, col_formats=columns).to_wire())
    sizer, start = ChunkSizer(), 0
    while start < len(lines):
        part = lines.part(start, start + sizer.rows)
        data = b"".join(replies.copy_data(f"{line}\n".encode()) for (line,) in part)
        start += len(part)
        sizer.record_chunk(len(part), len(data))
        client.send(data)
        await client.yield_between_chunks()
    client.send(COPY_DONE)
    return len(lines.rows)


async def send_subscription(
    client: ClientConnection, statement: Subscribe, format_: int, *, describe: bool
) -> None:
    """Send a view's changes until the client disconnects, or cancels it, which raises CanceledError."""
    stream = Stream(statement, format_, asyncio.get_running_loop())
    await client.run_with_engine(stream.open)
    try:
        if statement.copies:
            client.send(wire.CopyOutResponse(overall_format=0, col_formats=[0] * len(stream.types)).to_wire())
        elif describe:
            client.send(replies.row_description(stream.names, stream.types, [format_] * len(stream.types)))
        await client.flush()
        await _forward(client, stream, statement)
    finally:
        # Not as the session, whose cancellation would prevent it.
        await client.server.read_engine(stream.close)


async def _forward(client: ClientConnection, stream: Stream, statement: Subscribe) -> None:
    client.canceled.clear()
    client.busy = False
    cancellation = asyncio.ensure_future(client.canceled.wait())
    next_rows = asyncio.ensure_future(stream.next_rows())
    loop, session = asyncio.get_running_loop(), client.session
    assert session is not None
    last_heartbeat = loop.time()
    try:
        while not cancellation.done():
            await asyncio.wait(
                (cancellation, next_rows), timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
            )
            if next_rows.done():
                rows = next_rows.result()
                next_rows = asyncio.ensure_future(stream.next_rows())
                lines = b"".join(replies.copy_data(line_of(row)) for row in rows)
                client.send(lines if statement.copies else replies.data_rows(rows))
                await client.flush()
            if not cancellation.done() and loop.time() - last_heartbeat >= HEARTBEAT:
                last_heartbeat = loop.time()
                client.check_connected()
                await client.server.read_engine_as(session, stream.send_heartbeat)
    finally:
        cancellation.cancel()
        next_rows.cancel()
    raise CanceledError("canceling statement due to user request")
