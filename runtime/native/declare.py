"""Declarations in kernel files: ``kernel``, ``device`` and the intrinsics that access memory by address.

Nothing here imports numba: a kernel is loaded, or compiled, when it is first called.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from kpg.runtime.native import memory


class Device:
    """A function that kernels of its file, and of files that import it, can call.

    It is compiled into each of them.
    """

    def __init__(self, function: Callable[..., Any], *, forces_inline: bool = False) -> None:
        self.function = function
        self.forces_inline = forces_inline
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def build(self) -> Callable[..., Any]:
        """Return the function that numba uses in its place."""
        if self._compiled is None:
            self._compiled = self.make()
            build_devices(self.function.__globals__)
        return self._compiled

    def make(self) -> Callable[..., Any]:
        """Compile the function with numba."""
        import numba  # lazy: kernels are compiled already

        compiled: Callable[..., Any] = numba.njit(self.function, nogil=True, forceinline=self.forces_inline)
        return compiled


def build_devices(namespace: dict[str, Any]) -> None:
    """Replace a kernel file's devices, including imported ones, by the functions that numba uses."""
    for name, value in list(namespace.items()):
        if isinstance(value, Device):
            namespace[name] = value.build()


class Intrinsic(Device):
    """A device written in LLVM: ``function()`` builds it with numba; ``plain`` is the same in Python."""

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any]) -> None:
        super().__init__(function)
        self.plain = plain

    def make(self) -> Callable[..., Any]:
        compiled: Callable[..., Any] = self.function()
        return compiled


class Kernel:
    """A function compiled for one signature, loaded on first call.

    After that, its module has the compiled function in its place: call it as ``module.name``.
    """

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.function = function
        self.signature = signature
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None

    @cached_property
    def file(self) -> str:
        """Name of its kernel file, such as ``vm``."""
        return self.function.__module__.rpartition(".")[2]

    @cached_property
    def symbol(self) -> str:
        """Symbol in machine code, such as ``kpg_vm_run``."""
        return f"kpg_{self.file}_{self.__name__}"

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            self.prepare()
            assert self._compiled is not None
        return self._compiled(*args)

    def prepare(self) -> None:
        """Load or compile the kernel now. If this is interrupted, it can be called again."""
        if self._compiled is None:
            self._compiled = self.compile()
            namespace = self.function.__globals__
            if namespace.get(self.__name__) is self:
                namespace[self.__name__] = self._compiled

    def compile(self) -> Callable[..., Any]:
        """Return the compiled function from the registered loader."""
        assert _loader is not None, "kpg.runtime.native.load registers it"
        return _loader(self)


_loader: Callable[[Kernel], Callable[..., Any]] | None = None


def register_loader(
    function: Callable[[Kernel], Callable[..., Any]],
) -> Callable[[Kernel], Callable[..., Any]]:
    """Register the function that returns a kernel's compiled function (decorator)."""
    global _loader
    _loader = function
    return function


def kernel(signature: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel with one explicit signature in numba's syntax (see ``signature.parse``)."""

    def declare(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, signature)

    return declare


def device(function: Callable[..., Any]) -> Device:
    """Declare a function that kernels of the same file may call."""
    return Device(function)


def inlined(function: Callable[..., Any]) -> Device:
    """Declare a device that is always inlined, however long it is.

    For functions called for each row: a call passes several words for each array. LLVM decides for other
    devices.
    """
    return Device(function, forces_inline=True)


def load_intrinsic() -> Intrinsic:
    """Return ``load(address, i)``: the i-th int64 at an address, for kernels that read several arrays.

    Bind it to a module-level name in the kernel's file. The caller keeps the arrays alive.
    """
    return Intrinsic(memory.make_load, memory.plain_load)


def save_intrinsic() -> Intrinsic:
    """Return ``save(address, i, word)``: write the i-th int64 at an address."""
    return Intrinsic(memory.make_save, memory.plain_save)


def bit_count_intrinsic() -> Intrinsic:
    """Return ``bit_count(word)``: the number of set bits."""
    return Intrinsic(memory.make_bit_count, memory.plain_bit_count)


def lowest_bit_intrinsic() -> Intrinsic:
    """Return ``lowest_bit(word)``: the position of the lowest set bit of a word other than 0."""
    return Intrinsic(memory.make_lowest_bit, memory.plain_lowest_bit)


def view_intrinsic() -> Intrinsic:
    """Return ``view(address, rows, columns)``: the ``int64[rows, columns]`` there; the caller keeps it."""
    return Intrinsic(memory.make_view, memory.plain_view)


def small_view_intrinsic() -> Intrinsic:
    """Return ``small_view(address, length)``: the ``int32[length]`` at an address."""
    return Intrinsic(memory.make_small_view, memory.plain_small_view)


def invoke_intrinsic() -> Intrinsic:
    """Return ``invoke(function, slots)``: call the compiled kernel at an address; non-zero is an exception.

    ``slots`` is the address of its arguments in the form of ``signature.py``; its result is stored in the
    first slot.
    """
    return Intrinsic(memory.make_invoke, memory.plain_invoke)


PACKAGE: Final = "kpg.runtime.kernels"
"""Package of kernel files; it is imported by name because it is above this one."""


def every_kernel() -> list[Kernel]:
    """Return all kernels that are not loaded, file by file: loaded ones have been replaced by functions."""
    kernels: list[Kernel] = []
    for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__):
        names = vars(importlib.import_module(f"{PACKAGE}.{module.name}"))
        kernels += [value for value in names.values() if isinstance(value, Kernel)]
    return kernels
