"""What flows for longer than a reply: COPY in and out, and subscriptions."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pygwire import ConnectionPhase as Phase
from pygwire import messages as wire

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.copy import BINARY
from kpg.dml.copying import copied_types
from kpg.dml.lines import Lines
from kpg.result import Result
from kpg.runtime.errors import CanceledError, DataError, OperationalError
from kpg.server import copied, received, replies
from kpg.server.pace import Pace
from kpg.server.portal import Portal
from kpg.server.subscribing import Stream, Subscribe
from kpg.server.subscribing import copied as line_of

if TYPE_CHECKING:
    from kpg.server.client import Client

MOST_COPIED: Final = 1 << 30
"""Bytes that one COPY may bring: they are in memory until all of them have come."""
HEARTBEAT: Final = 1.0
"""Seconds after which a subscription with PROGRESS says how far it is, and any looks for its client."""
COPY_DONE: Final = wire.CopyDone().to_wire()


async def copy_in(client: "Client", statement: ast.CopyFrom) -> ast.CopyFrom:
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
        return replace(statement, text=copied.text_of(bytes(data), types), format="text")
    return replace(statement, text=received.text_in(bytes(data)))


async def copied_out(client: "Client", portal: Portal) -> bool:
    """Send what a COPY TO STDOUT gives; whether it was one."""
    statement, outcome = portal.statement, portal.outcome
    if not isinstance(statement, ast.CopyTo) or statement.path or outcome is None:
        return False
    if statement.format == BINARY:
        client.send(replies.complete(f"COPY {await copy_out_binary(client, outcome)}"))
        return True
    client.send(replies.complete(f"COPY {await copy_out(client, outcome)}"))
    return True


async def copy_out_binary(client: "Client", outcome: Result) -> int:
    """Send the rows of a COPY TO STDOUT in binary form; how many."""
    client.send(wire.CopyOutResponse(overall_format=1, col_formats=[1] * len(outcome.types)).to_wire())
    for data in copied.messages(outcome, client.server.hub.engine.executor.dictionary):
        client.send(data)
        await client.give_way()
    client.send(COPY_DONE)
    return len(outcome)


async def copy_out(client: "Client", outcome: Result) -> int:
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


async def subscribe(client: "Client", statement: Subscribe, form: int, *, describe: bool) -> None:
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


async def _forward(client: "Client", stream: Stream, statement: Subscribe) -> None:
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
