"""The compiled loops: the only place that imports numba.

A kernel takes contiguous int64 arrays and returns counts; it knows no Python object.
``@kernel("int64(int64[:, ::1], ...)")`` declares one signature and defers loading: the machine code is
compiled, or read from the disk cache, when the kernel is first called, so that importing kpg does not
import numba. A function that kernels call is declared ``@device``: of the same file, or of one whose devices
and constants are for others (``layout``, ``accumulators``), from which it is imported by name.
"""

import importlib
import logging
import os
import pkgutil
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

_logger = logging.getLogger("kpg")
_told: list[str] = []
IMPORTED: Final = re.compile(r"^from kpg\.runtime\.kernels\.(\w+) import", re.MULTILINE)
"""The files whose constants and devices are compiled into a file's kernels."""


class Device:
    """A function callable from kernels, compiled together with the first of them.

    A call with arrays counts references to each of them, which costs tens of nanoseconds unless LLVM
    sees through it: in an innermost loop the code is better written out.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self._built: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def build(self) -> Callable[..., Any]:
        """What a kernel calls in the compiled code: the same for the kernels of all files."""
        if self._built is None:
            self._built = self.make()
        return self._built

    def make(self) -> Callable[..., Any]:
        """The function for kernels, and those that it calls itself."""
        import numba

        self._built = numba.njit(self.function, nogil=True)
        _build_devices(self.function.__globals__)
        return self._built


class Intrinsic(Device):
    """A device function that is written in LLVM: ``function()`` makes it when numba is there."""

    def make(self) -> Callable[..., Any]:
        compiled: Callable[..., Any] = self.function()
        return compiled


class Kernel:
    """A function compiled for one signature on first call.

    Its module has the compiled function in its place from then on: call it as ``module.name``.
    """

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.function = function
        self.signature = signature
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            self.prepare()
            assert self._compiled is not None
        return self._compiled(*args)

    def prepare(self) -> None:
        """Compile or load the kernel now, if it is not; Ctrl-C waits: the compiler must not stop midway."""
        if self._compiled is None:
            with _without_interrupts():
                self._compiled = self.compile()
            namespace = self.function.__globals__
            if namespace.get(self.__name__) is self:
                namespace[self.__name__] = self._compiled

    def compile(self) -> Callable[..., Any]:
        """The compiled function, from the disk cache if it is there."""
        import numba

        _build_devices(self.function.__globals__)
        if not self._is_cached(numba):
            _tell()
        compiled: Any = numba.njit(cache=True, nogil=True)(self.function)
        # The disk cache would look at the kernel's own file only.
        compiled._cache._cache_file._source_stamp = stamp_of(Path(self.function.__code__.co_filename))
        compiled.compile(self.signature)
        compiled.disable_compile()
        function: Callable[..., Any] = compiled
        return function

    def _is_cached(self, numba: Any) -> bool:
        """Whether the disk cache seems to have the machine code."""
        folder = Path(numba.njit(cache=True)(self.function)._cache.cache_path)
        stem = Path(self.function.__code__.co_filename).stem
        return any(folder.glob(f"{stem}.{self.function.__qualname__}-*.nbc"))


def _build_devices(namespace: dict[str, Any]) -> None:
    """Put what kernels call in the places of the devices that a module has, its own and imported ones."""
    for name, value in list(namespace.items()):
        if isinstance(value, Device):
            namespace[name] = value.build()


@cache
def stamp_of(file: Path) -> tuple[tuple[float, int], ...]:
    """The versions of the sources that a file of kernels is compiled from: its own, and what it imports."""
    found = os.stat(file)
    own = ((found.st_mtime, found.st_size),)
    imported = IMPORTED.findall(file.read_text(encoding="utf-8"))
    return sum((stamp_of(file.with_name(f"{name}.py")) for name in imported), own)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back, then let whoever handles it otherwise do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if seen and callable(before):
        before(signal.SIGINT, None)


def every_kernel() -> list[Kernel]:
    """All kernels, for whoever would rather compile them before they are needed."""
    found: list[Kernel] = []
    for module in pkgutil.iter_modules(__path__):
        names = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found += [value for value in names.values() if isinstance(value, Kernel)]
    return found


def _tell() -> None:
    """Say once that compiling takes its time: on a terminal to the user, else to the log."""
    if not _told:
        _told.append("told")
        message = "kpg compiles its kernels for this machine, once: about half a minute"
        if sys.stderr.isatty():
            print(message, file=sys.stderr, flush=True)
        else:
            _logger.info(message)


def kernel(signature: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel with one explicit numba signature."""

    def declare(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, signature)

    return declare


def device(function: Callable[..., Any]) -> Device:
    """Declare a function that kernels may call."""
    return Device(function)


def _make_load() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def load(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            return builder.load(builder.gep(pointer, [args[1]]))

        return types.int64(types.int64, types.int64), generate

    return load


def load_intrinsic() -> Intrinsic:
    """``load(address, i)``: the i-th int64 behind an address, for kernels that walk several arrays.

    Bind it to a module-level name in the kernel's file. The caller keeps the arrays alive.
    """
    return Intrinsic(_make_load)


def _make_pointer() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    return pointer


def _make_view() -> Any:
    import numba
    import numpy as np

    pointer = _make_pointer()

    def view(address: int, rows: int, columns: int) -> Any:
        return numba.carray(pointer(address), (rows, columns), np.int64)

    return numba.njit(view, nogil=True)


def _make_small_view() -> Any:
    import numba
    import numpy as np

    pointer = _make_pointer()

    def view(address: int, length: int) -> Any:
        return numba.carray(pointer(address), (length,), np.int32)

    return numba.njit(view, nogil=True)


def view_intrinsic() -> Intrinsic:
    """``view(address, rows, columns)``: the ``int64[rows, columns]`` there; the caller keeps it alive."""
    return Intrinsic(_make_view)


def small_view_intrinsic() -> Intrinsic:
    """``small_view(address, length)``: the ``int32[length]`` at an address."""
    return Intrinsic(_make_small_view)
