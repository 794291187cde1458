"""Messages of the protocol, sent to kpg and to a real Postgres, and what both answer."""

import socket
import struct
from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs, urlparse

from pygwire import messages as wire

SYNC = wire.Sync().to_wire()


def parse(name: str, text: str, types: Sequence[int] = ()) -> bytes:
    return wire.Parse(statement=name, query=text, param_types=list(types)).to_wire()


def bind(portal: str, name: str, values: Iterable[object] = ()) -> bytes:
    given = [None if value is None else str(value).encode() for value in values]
    return wire.Bind(
        portal=portal, statement=name, param_formats=[], param_values=given, result_formats=[]
    ).to_wire()


def execute(portal: str, most: int = 0) -> bytes:
    return wire.Execute(portal=portal, max_rows=most).to_wire()


def described(kind: str, name: str) -> bytes:
    return wire.Describe(kind=kind, name=name).to_wire()


def closed(kind: str, name: str) -> bytes:
    return wire.Close(kind=kind, name=name).to_wire()


def query(text: str) -> bytes:
    return wire.Query(query_string=text).to_wire()


class Messages:
    """A client of a server at a port of this machine, or at the socket of an address."""

    def __init__(self, address: int | str) -> None:
        if isinstance(address, int):
            user = b"kpg"
            self._socket = socket.create_connection(("127.0.0.1", address), timeout=60)
        else:
            user = b"postgres"
            (folder,) = parse_qs(urlparse(address).query)["host"]
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(60)
            self._socket.connect(f"{folder}/.s.PGSQL.5432")
        body = struct.pack("!i", 3 << 16) + b"user\0" + user + b"\0database\0" + user + b"\0\0"
        self._file = self._socket.makefile("rb")
        self._socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self._until_ready(1)

    def ask(self, messages: Sequence[bytes]) -> list[str]:
        """What comes until all are answered: each Query and each Sync has its ReadyForQuery."""
        self._socket.sendall(b"".join(messages))
        return self._until_ready(sum(one[:1] in b"QS" for one in messages))

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _until_ready(self, times: int) -> list[str]:
        found = []
        while times:
            kind, length = struct.unpack("!ci", self._file.read(5))
            body = self._file.read(length - 4)
            if kind not in b"SKRN":
                found.append(kind.decode() + SHOWN.get(kind, lambda body: "")(body))
            times -= kind == b"Z"
        return found


def _row(body: bytes) -> str:
    (count,) = struct.unpack_from("!H", body)
    place, fields = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, place)
        fields.append("-" if length < 0 else body[place + 4 : place + 4 + length].decode())
        place += 4 + max(length, 0)
    return " " + "|".join(fields)


def _columns(body: bytes) -> str:
    (count,) = struct.unpack_from("!H", body)
    place, fields = 2, []
    for _ in range(count):
        end = body.index(b"\0", place)
        number, form = struct.unpack_from("!6xi6xh", body, end + 1)
        fields.append(f"{body[place:end].decode()}:{number}:{form}")
        place = end + 19
    return " " + ",".join(fields)


def _types(body: bytes) -> str:
    return " " + ",".join(map(str, struct.unpack(f"!{(len(body) - 2) // 4}i", body[2:])))


def _failure(body: bytes) -> str:
    fields = {field[:1]: field[1:].decode() for field in body.split(b"\0") if field}
    return f" {fields[b'C']} {fields[b'M']}"


SHOWN = {
    b"D": _row,
    b"T": _columns,
    b"t": _types,
    b"E": _failure,
    b"C": lambda body: " " + body[:-1].decode(),
    b"Z": lambda body: " " + body.decode(),
}
