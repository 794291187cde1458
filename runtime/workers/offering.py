"""What a worker has of a view, for whoever comes for it with a secret: an Arrow stream.

The rows are those of the moment at which they were offered. They can be had any number of times, until they
are withdrawn.
"""

import socket
import threading
from typing import Final

import pyarrow as pa

from kpg.runtime.workers.door import Card, Door, visit

LOOKS: Final = 0.1
"""Seconds after which it is seen that an offer was withdrawn."""
MOST_DIGITS: Final = 38
"""Of decimals in 128 bits."""


class Offer:
    """A table that others fetch."""

    def __init__(self, table: pa.Table, host: str, secret: bytes) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._content = memoryview(sink.getvalue())
        self._door = Door(host, secret)
        self.port = self._door.port
        self._over = False
        self._server = threading.Thread(target=self._serve, name="kpg-offer", daemon=True)
        self._server.start()

    def _serve(self) -> None:
        while not self._over:
            come = self._door.wait(LOOKS)
            if come is not None:
                threading.Thread(target=self._send, args=(come[1],), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(self._content)
            except OSError:
                return  # who has come for it comes again, or is told what is wrong by Spark

    def withdraw(self) -> None:
        """Let nobody come for it any more."""
        self._over = True
        self._server.join()
        self._door.close()


def types_of(table: pa.Table) -> pa.Schema:
    """The types of the columns; ``null`` of one in which there is nothing else."""
    fields = zip(table.schema, table.columns, strict=True)
    return pa.schema(
        [
            field.with_type(pa.null()) if column.null_count == len(column) else field
            for field, column in fields
        ]
    )


def in_common(schemas: list[pa.Schema], nothing: pa.Schema) -> pa.Schema:
    """Types that all places have, or can have: those of numbers of any digits are by their values.

    ``nothing`` has the types of no rows.
    """
    fields = []
    for place, field in enumerate(nothing):
        types = {schema.field(place).type for schema in schemas} - {pa.null()}
        fields.append(field.with_type(_for_all(types, field.type)))
    return pa.schema(fields)


def _for_all(types: set[pa.DataType], nothing: pa.DataType) -> pa.DataType:
    if len(types) == 1:
        return types.pop()
    if types and all(map(pa.types.is_decimal, types)):
        scale = max(one.scale for one in types)
        digits = scale + max(one.precision - one.scale for one in types)
        return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else pa.string()
    return nothing


def fetched(address: tuple[str, int], secret: bytes) -> pa.Table:
    """What is offered there; OSError or StrangerError if nothing is."""
    with visit(address, secret, Card(b"v", 0, 0, 0)) as connection, connection.makefile("rb") as file:
        return pa.ipc.open_stream(file).read_all()
