"""Messages between coordinator and members: framing, pickling of functions, commands and replies.

A message is a pickled header and arrays, whose bytes are sent unchanged. Peers exchange only columns and a
few numbers. Commands and replies pass only between a process and the processes that it started.

Functions that no module exports (lambdas, closures, functions of ``__main__``) are pickled by value: code and
the objects that they refer to, as of the moment of sending. Workers run the same Python version as the
coordinator. Changes that a function makes to such objects stay in its process. A function that is sent again
unpickles to the same object, so that operators which call it are shared.
"""

import builtins
import importlib
import io
import marshal
import pickle
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.shared_memory import GroupUpdates, SharedMemory
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.operators.text_exchange import StringDelta
from kpg.runtime.plan import Types
from kpg.runtime.trace.updates import Updates

_numbers: Final = count()
_function_numbers: "WeakKeyDictionary[FunctionType, int]" = WeakKeyDictionary()
"""Numbers of the functions that were sent."""
_received_functions: "WeakValueDictionary[int, FunctionType]" = WeakValueDictionary()
"""Functions that were received, by number."""
EMPTY_CELL: Final = "kpg: a cell with nothing in it"


class Pickler(pickle.Pickler):
    """Pickler that also pickles functions of no module."""

    def reducer_override(self, value: Any) -> Any:
        """Return how an object is reduced; see ``pickle.Pickler``."""
        if isinstance(value, FunctionType):
            return NotImplemented if _is_exported(value) else _reduce_function(value)
        if isinstance(value, ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, type) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"the class {value.__qualname__} is in no module")
        return NotImplemented


def dumps(message: object, callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """Return the pickled message, as ``pickle.dumps`` with a ``buffer_callback``."""
    file = io.BytesIO()
    Pickler(file, 5, buffer_callback=callback).dump(message)
    return file.getvalue()


def _is_exported(function: FunctionType) -> bool:
    value: Any = sys.modules.get(function.__module__ or "")
    if value is None or value.__name__ == "__main__":
        return False
    for part in function.__qualname__.split("."):
        value = getattr(value, part, None)
    return value is function


def _reduce_function(function: FunctionType) -> tuple[Any, ...]:
    number = _function_numbers.setdefault(function, next(_numbers))
    code, cells = function.__code__, function.__closure__ or ()
    arguments = number, marshal.dumps(code), function.__name__, function.__module__, len(cells)
    used_globals = {
        one: function.__globals__[one] for one in _global_names(code) if one in function.__globals__
    }
    state = {
        "globals": used_globals,
        "cells": [_cell_content(cell) for cell in cells],
        "defaults": (function.__defaults__, function.__kwdefaults__),
        "more": (function.__qualname__, function.__dict__),
    }
    return _make_function, arguments, state, None, None, _fill_function


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names that code may look up among globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _cell_content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY_CELL


def _make_function(number: int, code: bytes, name: str, module: str, cells: int) -> FunctionType:
    """Return the function of that number if it was received before, else a new one to be filled."""
    function = _received_functions.get(number)
    if function is None:
        namespace = {"__builtins__": builtins, "__name__": module}
        closure = tuple(CellType() for _ in range(cells))
        function = _received_functions[number] = FunctionType(
            marshal.loads(code), namespace, name, None, closure
        )
    return function


def _fill_function(function: FunctionType, state: dict[str, Any]) -> None:
    if function.__globals__.get(EMPTY_CELL):
        return  # it was received before, and may have changed the objects that it refers to
    function.__globals__.update(state["globals"])
    function.__globals__[EMPTY_CELL] = True
    function.__defaults__, function.__kwdefaults__ = state["defaults"]
    function.__qualname__ = state["more"][0]
    function.__dict__.update(state["more"][1])
    for cell, content in zip(function.__closure__ or (), state["cells"], strict=True):
        if content != EMPTY_CELL:
            cell.cell_contents = content


SEND_BUFFER: Final = 1 << 20
"""Bytes in transit between two processes of one machine; a sender of more waits until they are read.

Between machines, the system's limits apply (tcp_wmem, tcp_rmem).
"""
MAX_BUFFERS: Final = 64
"""Buffers that one system call sends."""
READ_AHEAD: Final = 4096
"""Bytes that are read at once where fewer are needed."""
LENGTHS: Final = struct.Struct("<QI")


class ConnectionLostError(Exception):
    """The process at the other end has died, or the connection is broken."""


class Connection(socket.socket):
    """One end of a connection; ``unread`` are received bytes of the next message."""

    def __init__(self, number: int) -> None:
        super().__init__(fileno=number)
        if self.family == socket.AF_UNIX:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self.setblocking(False)
        self.unread = b""


def connection_pair() -> tuple[Connection, Connection]:
    """Return the two ends of a new connection."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Connection(one.detach()), Connection(other.detach())


def encode_message(message: object) -> list[memoryview]:
    """Return the pieces of a message: lengths, the header, and the arrays."""
    arrays: list[pickle.PickleBuffer] = []
    header = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    raws = [array.raw() for array in arrays]
    lengths = LENGTHS.pack(len(header), len(raws)) + struct.pack(f"<{len(raws)}Q", *map(len, raws))
    return [memoryview(lengths + header), *(raw for raw in raws if len(raw))]


class Sender:
    """Sends one message to one process."""

    def __init__(self, connection: socket.socket, pieces: list[memoryview]) -> None:
        self._connection = connection
        self._pieces = pieces

    @property
    def is_done(self) -> bool:
        """Whether everything is sent."""
        return not self._pieces

    def send(self) -> None:
        """Send as much as possible without waiting."""
        while self._pieces:
            try:
                count = self._connection.sendmsg(self._pieces[:MAX_BUFFERS])
            except BlockingIOError:
                return
            except OSError:
                raise ConnectionLostError from None
            while count:
                first = self._pieces[0]
                if count < len(first):
                    self._pieces[0] = first[count:]
                    break
                count -= len(first)
                del self._pieces[0]


class Receiver:
    """Receives one message from one process, piece by piece."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._head = bytearray()
        self._head_size = LENGTHS.size
        self._header_size = -1
        self._arrays: list[NDArray[np.uint8]] = []
        self._filled = 0
        self._array_number = 0
        self.is_done = False

    def receive(self) -> None:
        """Receive as much as possible without waiting."""
        while not self.is_done:
            if self._header_size < 0 or len(self._head) < self._head_size:
                if not self._read_head():
                    return
            elif not self._read_array():
                return

    def _read_head(self) -> bool:
        part = self._read_some(self._head_size - len(self._head))
        if part is None:
            return False
        self._head += part
        if len(self._head) == self._head_size:
            if self._header_size < 0:
                header, count = LENGTHS.unpack_from(self._head)
                self._header_size = header
                self._head_size += 8 * count + header
            else:
                _, count = LENGTHS.unpack_from(self._head)
                sizes = struct.unpack_from(f"<{count}Q", self._head, LENGTHS.size)
                self._arrays = [np.empty(size, np.uint8) for size in sizes]
                self._skip_complete()
        return True

    def _skip_complete(self) -> None:
        while self._array_number < len(self._arrays) and self._filled == len(
            self._arrays[self._array_number]
        ):
            self._array_number += 1
            self._filled = 0
        self.is_done = self._array_number == len(self._arrays)

    def _read_array(self) -> bool:
        array = self._arrays[self._array_number].data
        missing = len(array) - self._filled
        if self._connection.unread or missing < READ_AHEAD:
            part = self._read_some(missing)
            if part is None:
                return False
            count = len(part)
            array[self._filled : self._filled + count] = part
        else:
            try:
                count = self._connection.recv_into(array[self._filled :])
            except BlockingIOError:
                return False
            except OSError:
                raise ConnectionLostError from None
            if not count:
                raise ConnectionLostError
        self._filled += count
        self._skip_complete()
        return True

    def _read_some(self, limit: int) -> bytes | None:
        """Return at most ``limit`` bytes; bytes received beyond that are buffered."""
        part = self._connection.unread
        if not part:
            try:
                part = self._connection.recv(max(limit, READ_AHEAD))
            except BlockingIOError:
                return None
            except OSError:
                raise ConnectionLostError from None
            if not part:
                raise ConnectionLostError
        self._connection.unread = part[limit:]
        return part[:limit]

    @property
    def message(self) -> Any:
        """The received message."""
        _, count = LENGTHS.unpack_from(self._head)
        header = memoryview(self._head)[LENGTHS.size + 8 * count :]
        return pickle.loads(header, buffers=self._arrays)


def exchange(
    out: Sequence[tuple[Connection, list[memoryview]]],
    awaited: Sequence[Connection],
    poll: Callable[[], None] | None = None,
    seconds: float | None = None,
    spins: int = 0,
) -> list[Any]:
    """Send messages and receive one from each connection of ``awaited``, in whatever order is possible.

    Args:
        poll: Called after every ``seconds`` without progress.
        spins: Polls before the process sleeps.

    Raises:
        ConnectionLostError: If a connection is lost.
    """
    senders = {end.fileno(): Sender(end, pieces) for end, pieces in out}
    receivers = {end.fileno(): Receiver(end) for end in awaited}
    for sender in senders.values():
        sender.send()
    for connection in awaited:
        if connection.unread:
            receivers[connection.fileno()].receive()
    while True:
        events_by_number: dict[int, int] = {}
        for number, sender in senders.items():
            if not sender.is_done:
                events_by_number[number] = select.POLLOUT
        for number, receiver in receivers.items():
            if not receiver.is_done:
                events_by_number[number] = events_by_number.get(number, 0) | select.POLLIN
        if not events_by_number:
            return [receivers[end.fileno()].message for end in awaited]
        poller = select.poll()
        for number, events in events_by_number.items():
            poller.register(number, events)
        ready = poller.poll(0) if spins else None
        while not ready and spins:
            spins -= 1
            ready = poller.poll(0)
        if not ready:
            ready = poller.poll(None if seconds is None else 1000 * seconds)
        for number, events in ready:
            if events & select.POLLOUT:
                senders[number].send()
            if number in receivers and events & ~select.POLLOUT:
                receivers[number].receive()
        if not ready and poll is not None:
            poll()


Words = NDArray[np.int64]


STEP_METHODS: Final = frozenset({"put", "change", "consider", "audit", "dangling"})
"""Methods that members run together, with barriers."""


ONE_WAY_METHODS: Final = frozenset({"check_constraints"})
"""Methods without a reply; a member that fails ends."""


class Command(NamedTuple):
    """A call of a member's method, with strings and locations of rows that the member must add before.

    Empty parts are None, which takes less to send.
    """

    method: str
    args: tuple[object, ...]
    strings: StringDelta | None
    group_updates: tuple[GroupUpdates, ...] = ()


class PerMember(NamedTuple):
    """An argument with another value for each member."""

    values: tuple[object, ...]


def commands_by_member(command: Command, count: int) -> list[Command]:
    """Return the command for each member: the same object for all, unless an argument is PerMember."""
    if not any(isinstance(one, PerMember) for one in command.args):
        return [command] * count
    return [
        command._replace(
            args=tuple(one.values[index] if isinstance(one, PerMember) else one for one in command.args)
        )
        for index in range(count)
    ]


class Reply(NamedTuple):
    """The reply of a member; texts in it are common words, which need the strings of ``delta``."""

    value: object
    delta: StringDelta | None
    error: BaseException | None = None
    is_secondary: bool = False
    """Whether it failed because another member did."""
    order: tuple[int, int] = (0, 0)
    """Order of failures: number of barriers before it, and the operator's position."""


class ChangeMessage(NamedTuple):
    """Changes of an epoch in a table: deleted rowids, inserted rowids, and the words of the inserted rows.

    ``size_after`` are the numbers of rowids and of rows after it. ``words`` is None where members see the
    rows, and for rows that they have received by a ``load``.
    """

    epoch: int
    table: str
    deleted: Words | None
    rowids: Words | tuple[int, int] | None
    words: Words | None
    size_after: tuple[int, int]
    load: str | None = None


class MemberLostError(OperationalError):
    """A member has ended, and the others with it."""


class UnsendableError(InterfaceError):
    """A command contains an object that exists only in this process."""


class Crew(Protocol):
    """The members of a distributed executor, as the coordinator sees them."""

    @property
    def count(self) -> int: ...

    @property
    def memory(self) -> SharedMemory | None:
        """Memory that members share with this process; None if everything is sent to them."""

    @property
    def hosts(self) -> list[str]:
        """Addresses at which other processes reach the members; empty if only this process can."""

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """Run a command at all members and return their replies.

        If ``poll`` raises, members abort the command, and its error is the second result.

        Raises:
            MemberLostError: If a member has ended; then all have.
            UnsendableError: If the command was not sent.
        """

    def send(self, command: Command) -> None:
        """Run a command of ``ONE_WAY_METHODS`` at all members, before any later command.

        Raises:
            MemberLostError: If a member has ended.
        """

    def restart(self) -> None:
        """Start new members, without any state, in place of the lost ones."""

    def close(self) -> None:
        """End all members."""


class PickledArguments(NamedTuple):
    """Arguments that are unpickled separately, since a member may lack a module that they refer to."""

    content: bytes


def pickle_arguments(command: Command) -> Command:
    """Return the command with pickled arguments, which may contain functions."""
    return command._replace(args=(PickledArguments(dumps(command.args)),))


def unpickle_arguments(args: tuple[object, ...], worker: int) -> tuple[object, ...]:
    """Return the arguments of a command.

    Raises:
        InterfaceError: If the worker cannot import an object in them.
    """
    if not args or not isinstance(args[0], PickledArguments):
        return args
    try:
        arguments: tuple[object, ...] = pickle.loads(args[0].content)
    except (ImportError, AttributeError) as error:
        raise InterfaceError(
            f"worker {worker} cannot import what is installed: {error}",
            hint="workers import functions of modules by name: install the module where they run, too, "
            "or define the function in the program itself, which is sent",
        ) from None
    return arguments


def encode_command(command: Command) -> list[memoryview]:
    """Return the pieces of a command's message.

    Raises:
        UnsendableError: If an argument cannot be pickled.
    """
    try:
        return encode_message(pickle_arguments(command) if command.method == "put" else command)
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise UnsendableError(
            f"the plan contains an object that cannot be sent to workers: {error}",
            hint="functions that workers run cannot refer to the database, to open files or connections, "
            "or to classes of the main program",
        ) from None


def shorten_rowids(rowids: Words) -> Words | tuple[int, int] | None:
    """Return ascending rowids, as (first, end) if they are consecutive; None if there are none."""
    count = rowids.shape[0]
    if not count:
        return None
    if int(rowids[-1]) - int(rowids[0]) == count - 1:
        return int(rowids[0]), int(rowids[-1]) + 1
    return rowids


def text_columns(types: Types) -> tuple[int, ...]:
    """Return the columns whose words are codes."""
    return tuple(place for place, type_ in enumerate(types) if type_.is_interned)


def replace_columns(updates: Updates, columns: dict[int, Words]) -> Updates:
    """Return updates with other words in some columns."""
    data = updates.data.copy()
    for place, words in columns.items():
        data[place] = words
    return updates.with_data(data)
