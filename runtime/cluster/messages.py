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

from kpg.runtime.cluster.shared_memory import Memory, Shown
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.operators.text_exchange import Delta
from kpg.runtime.plan import Types
from kpg.runtime.trace.updates import Updates

_numbers: Final = count()
_told: "WeakKeyDictionary[FunctionType, int]" = WeakKeyDictionary()
"""The numbers of functions that were sent."""
_here: "WeakValueDictionary[int, FunctionType]" = WeakValueDictionary()
"""Functions that came, by their numbers."""
EMPTY: Final = "kpg: a cell with nothing in it"


class Pickler(pickle.Pickler):
    """Pickles such functions, too."""

    def reducer_override(self, given: Any) -> Any:
        """See ``pickle.Pickler``."""
        if isinstance(given, FunctionType):
            return NotImplemented if _is_a_modules(given) else _reduced(given)
        if isinstance(given, ModuleType):
            return importlib.import_module, (given.__name__,)
        if isinstance(given, type) and given.__module__ == "__main__":
            raise pickle.PicklingError(f"the class {given.__qualname__} is in no module")
        return NotImplemented


def pickled(message: object, callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """As ``pickle.dumps`` with a ``buffer_callback``."""
    file = io.BytesIO()
    Pickler(file, 5, buffer_callback=callback).dump(message)
    return file.getvalue()


def _is_a_modules(function: FunctionType) -> bool:
    found: Any = sys.modules.get(function.__module__ or "")
    if found is None or found.__name__ == "__main__":
        return False
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _reduced(function: FunctionType) -> tuple[Any, ...]:
    number = _told.setdefault(function, next(_numbers))
    code, cells = function.__code__, function.__closure__ or ()
    made = number, marshal.dumps(code), function.__name__, function.__module__, len(cells)
    used = {one: function.__globals__[one] for one in _names(code) if one in function.__globals__}
    state = {
        "globals": used,
        "cells": [_content(cell) for cell in cells],
        "defaults": (function.__defaults__, function.__kwdefaults__),
        "more": (function.__qualname__, function.__dict__),
    }
    return _function, made, state, None, None, _fill


def _names(code: CodeType) -> Iterator[str]:
    """What code may look for among globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _function(number: int, code: bytes, called: str, module: str, cells: int) -> FunctionType:
    """The function of a number, if it is here, or else one that is still to be filled."""
    found = _here.get(number)
    if found is None:
        space = {"__builtins__": builtins, "__name__": module}
        closure = tuple(CellType() for _ in range(cells))
        found = _here[number] = FunctionType(marshal.loads(code), space, called, None, closure)
    return found


def _fill(function: FunctionType, state: dict[str, Any]) -> None:
    if function.__globals__.get(EMPTY):
        return  # it came before, and may have changed what it refers to
    function.__globals__.update(state["globals"])
    function.__globals__[EMPTY] = True
    function.__defaults__, function.__kwdefaults__ = state["defaults"]
    function.__qualname__ = state["more"][0]
    function.__dict__.update(state["more"][1])
    for cell, content in zip(function.__closure__ or (), state["cells"], strict=True):
        if content != EMPTY:
            cell.cell_contents = content


BUFFER: Final = 1 << 20
"""Bytes that are on their way between two processes of one machine at most; who sends more waits until they
are read. Between machines the system has a bound of its own (tcp_wmem, tcp_rmem)."""
AT_ONCE: Final = 64
"""Arrays that one call sends."""
AHEAD: Final = 4096
"""Bytes that are read at once where fewer are wanted."""
LENGTHS: Final = struct.Struct("<QI")


class GoneError(Exception):
    """The process at the other end has died, or the way to it is cut."""


class Line(socket.socket):
    """An end of a connection; ``left`` is what has come of the next message."""

    def __init__(self, number: int) -> None:
        super().__init__(fileno=number)
        if self.family == socket.AF_UNIX:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self.setblocking(False)
        self.left = b""


def pair() -> tuple[Line, Line]:
    """Two ends of a connection."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Line(one.detach()), Line(other.detach())


def packed(message: object) -> list[memoryview]:
    """The pieces of a message: lengths, the header, and the arrays."""
    arrays: list[pickle.PickleBuffer] = []
    header = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    raws = [array.raw() for array in arrays]
    lengths = LENGTHS.pack(len(header), len(raws)) + struct.pack(f"<{len(raws)}Q", *map(len, raws))
    return [memoryview(lengths + header), *(raw for raw in raws if len(raw))]


class Sender:
    """What is still to be sent to one process."""

    def __init__(self, end: socket.socket, pieces: list[memoryview]) -> None:
        self._end = end
        self._pieces = pieces

    @property
    def done(self) -> bool:
        """Whether all is on its way."""
        return not self._pieces

    def go_on(self) -> None:
        """Send as much as there is room for."""
        while self._pieces:
            try:
                count = self._end.sendmsg(self._pieces[:AT_ONCE])
            except BlockingIOError:
                return
            except OSError:
                raise GoneError from None
            while count:
                first = self._pieces[0]
                if count < len(first):
                    self._pieces[0] = first[count:]
                    break
                count -= len(first)
                del self._pieces[0]


class Receiver:
    """A message that comes from one process, piece by piece."""

    def __init__(self, end: Line) -> None:
        self._end = end
        self._head = bytearray()
        self._wanted = LENGTHS.size
        self._header = -1
        self._arrays: list[NDArray[np.uint8]] = []
        self._filled = 0
        self._place = 0
        self.done = False

    def go_on(self) -> None:
        """Take as much as there is."""
        while not self.done:
            if self._header < 0 or len(self._head) < self._wanted:
                if not self._read_head():
                    return
            elif not self._read_array():
                return

    def _read_head(self) -> bool:
        found = self._take(self._wanted - len(self._head))
        if found is None:
            return False
        self._head += found
        if len(self._head) == self._wanted:
            if self._header < 0:
                header, count = LENGTHS.unpack_from(self._head)
                self._header = header
                self._wanted += 8 * count + header
            else:
                _, count = LENGTHS.unpack_from(self._head)
                sizes = struct.unpack_from(f"<{count}Q", self._head, LENGTHS.size)
                self._arrays = [np.empty(size, np.uint8) for size in sizes]
                self._next()
        return True

    def _next(self) -> None:
        while self._place < len(self._arrays) and self._filled == len(self._arrays[self._place]):
            self._place += 1
            self._filled = 0
        self.done = self._place == len(self._arrays)

    def _read_array(self) -> bool:
        array = self._arrays[self._place].data
        wanted = len(array) - self._filled
        if self._end.left or wanted < AHEAD:
            found = self._take(wanted)
            if found is None:
                return False
            count = len(found)
            array[self._filled : self._filled + count] = found
        else:
            try:
                count = self._end.recv_into(array[self._filled :])
            except BlockingIOError:
                return False
            except OSError:
                raise GoneError from None
            if not count:
                raise GoneError
        self._filled += count
        self._next()
        return True

    def _take(self, most: int) -> bytes | None:
        """So many bytes at most; what comes with them is kept."""
        found = self._end.left
        if not found:
            try:
                found = self._end.recv(max(most, AHEAD))
            except BlockingIOError:
                return None
            except OSError:
                raise GoneError from None
            if not found:
                raise GoneError
        self._end.left = found[most:]
        return found[:most]

    @property
    def message(self) -> Any:
        """What has come."""
        _, count = LENGTHS.unpack_from(self._head)
        header = memoryview(self._head)[LENGTHS.size + 8 * count :]
        return pickle.loads(header, buffers=self._arrays)


def exchange(
    out: Sequence[tuple[Line, list[memoryview]]],
    awaited: Sequence[Line],
    poll: Callable[[], None] | None = None,
    seconds: float | None = None,
    looks: int = 0,
) -> list[Any]:
    """Send messages and take one from each of those awaited, whichever can be done first.

    ``poll`` is called after each so many ``seconds`` in which nothing happens. Before it goes to sleep it
    ``looks`` so often whether something has happened. GoneError if one is gone.
    """
    senders = {end.fileno(): Sender(end, pieces) for end, pieces in out}
    receivers = {end.fileno(): Receiver(end) for end in awaited}
    for sender in senders.values():
        sender.go_on()
    for end in awaited:
        if end.left:
            receivers[end.fileno()].go_on()
    while True:
        wanted: dict[int, int] = {}
        for number, sender in senders.items():
            if not sender.done:
                wanted[number] = select.POLLOUT
        for number, receiver in receivers.items():
            if not receiver.done:
                wanted[number] = wanted.get(number, 0) | select.POLLIN
        if not wanted:
            return [receivers[end.fileno()].message for end in awaited]
        poller = select.poll()
        for number, events in wanted.items():
            poller.register(number, events)
        found = poller.poll(0) if looks else None
        while not found and looks:
            looks -= 1
            found = poller.poll(0)
        if not found:
            found = poller.poll(None if seconds is None else 1000 * seconds)
        for number, events in found:
            if events & select.POLLOUT:
                senders[number].go_on()
            if number in receivers and events & ~select.POLLOUT:
                receivers[number].go_on()
        if not found and poll is not None:
            poll()


Words = NDArray[np.int64]


STEPS: Final = frozenset({"put", "change", "consider", "audit", "dangling"})
"""What members do together, meeting on the way."""


TOLD: Final = frozenset({"settle"})
"""What members do without answering: they end if they cannot."""


class Command(NamedTuple):
    """A method of a member, and what to learn before it is called: strings, and where tables' rows are.

    What there is nothing of is None, which takes less to send.
    """

    method: str
    args: tuple[object, ...]
    learn: Delta | None
    shown: tuple[Shown, ...] = ()


class Each(NamedTuple):
    """What is another argument for each member."""

    values: tuple[object, ...]


def commands(command: Command, count: int) -> list[Command]:
    """What each of so many members is told: one and the same, if there is nothing else for any of them."""
    if not any(isinstance(one, Each) for one in command.args):
        return [command] * count
    return [
        command._replace(
            args=tuple(one.values[index] if isinstance(one, Each) else one for one in command.args)
        )
        for index in range(count)
    ]


class Reply(NamedTuple):
    """What a member answers; texts in it are common words, which need the strings of ``delta``."""

    value: object
    delta: Delta | None
    error: BaseException | None = None
    aside: bool = False
    """Whether it failed because another one did."""
    order: tuple[int, int] = (0, 0)
    """When it failed: how many meetings before, and which operator."""


class Changed(NamedTuple):
    """What an epoch changed in a table: rowids that went, rowids that came, and their words.

    ``after`` is how many rowids and rows it has then. Where members see the rows there are no ``words``; nor
    are there of those that have come to them by a ``load``.
    """

    epoch: int
    table: str
    gone: Words | None
    rowids: Words | tuple[int, int] | None
    words: Words | None
    after: tuple[int, int]
    load: str | None = None


class MemberGoneError(OperationalError):
    """A member has ended, and the others with it."""


class UnsendableError(InterfaceError):
    """What members are to do has something in it that only this process has."""


class Crew(Protocol):
    """The members, as their coordinator has them."""

    @property
    def count(self) -> int: ...

    @property
    def memory(self) -> Memory | None:
        """What its members have in common with this process; None if everything is sent to them."""

    @property
    def hosts(self) -> list[str]:
        """The addresses at which others reach its members; none if they are this process's alone."""

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """Have all members do something, and wait for what they answer.

        When ``poll`` raises, members end what they do; what it raised is given, too. MemberGoneError if one
        has ended: nobody is there any more. UnsendableError if nobody was asked.
        """

    def tell(self, command: Command) -> None:
        """Have all members do one of ``TOLD`` before anything else; MemberGoneError."""

    def again(self) -> None:
        """Start new ones in the place of those that are gone, who know nothing yet."""

    def close(self) -> None:
        """Give them up."""


class Sealed(NamedTuple):
    """What is read once all else of a command has been: there may be in it what a member has not."""

    content: bytes


def sealed(command: Command) -> Command:
    """A command whose arguments may be functions."""
    return command._replace(args=(Sealed(pickled(command.args)),))


def unsealed(args: tuple[object, ...], worker: int) -> tuple[object, ...]:
    """The arguments of a command; InterfaceError if something in them is not at the worker."""
    if not args or not isinstance(args[0], Sealed):
        return args
    try:
        found: tuple[object, ...] = pickle.loads(args[0].content)
    except (ImportError, AttributeError) as error:
        raise InterfaceError(
            f"worker {worker} cannot import what is installed: {error}",
            hint="workers import functions of modules by their names: have the module where they run, too, "
            "or write the function in the program itself, which is sent",
        ) from None
    return found


def sent(command: Command) -> list[memoryview]:
    """The pieces of a message of it; UnsendableError."""
    try:
        return packed(sealed(command) if command.method == "put" else command)
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise UnsendableError(
            f"what is installed has something in it that workers cannot get: {error}",
            hint="functions of several workers cannot refer to the database, to open files or connections, "
            "nor to classes of the program that was started",
        ) from None


def shortened(rowids: Words) -> Words | tuple[int, int] | None:
    """Ascending rowids, as the first one and the end if they follow each other."""
    count = rowids.shape[0]
    if not count:
        return None
    if int(rowids[-1]) - int(rowids[0]) == count - 1:
        return int(rowids[0]), int(rowids[-1]) + 1
    return rowids


def texts_of(types: Types) -> tuple[int, ...]:
    """The columns whose words are codes."""
    return tuple(place for place, type_ in enumerate(types) if type_.is_interned)


def with_columns(updates: Updates, columns: dict[int, Words]) -> Updates:
    """Updates with other words in some columns."""
    data = updates.data.copy()
    for place, words in columns.items():
        data[place] = words
    return updates.with_data(data)
