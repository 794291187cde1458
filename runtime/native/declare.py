"""What a kernel file uses: ``kernel``, ``device`` and the functions that read memory behind an address.

Nothing here imports numba: a kernel is loaded, or compiled, when it is first called.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from kpg.runtime.native import memory


class Device:
    """A function callable from the kernels of its file, and of those that import it; compiled into each."""

    def __init__(self, function: Callable[..., Any], *, inlined: bool = False) -> None:
        self.function = function
        self.inlined = inlined
        self.__doc__ = function.__doc__
        self._built: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def build(self) -> Callable[..., Any]:
        """What numba sees in its place."""
        if self._built is None:
            self._built = self.make()
            build_devices(self.function.__globals__)
        return self._built

    def make(self) -> Callable[..., Any]:
        """The function as numba takes it."""
        import numba  # lazy: kernels are compiled already

        compiled: Callable[..., Any] = numba.njit(self.function, nogil=True, forceinline=self.inlined)
        return compiled


def build_devices(namespace: dict[str, Any]) -> None:
    """Put what numba sees in the place of a kernel file's devices, its own and those it imports."""
    for name, value in list(namespace.items()):
        if isinstance(value, Device):
            namespace[name] = value.build()


class Intrinsic(Device):
    """A device function that is written in LLVM: ``function()`` makes it when numba is there."""

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any]) -> None:
        super().__init__(function)
        self.plain = plain

    def make(self) -> Callable[..., Any]:
        compiled: Callable[..., Any] = self.function()
        return compiled


class Kernel:
    """A function compiled for one signature, loaded on first call.

    Its module has the compiled function in its place from then on: call it as ``module.name``.
    """

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.function = function
        self.signature = signature
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None

    @cached_property
    def file(self) -> str:
        """The name of its kernel file: ``vm``."""
        return self.function.__module__.rpartition(".")[2]

    @cached_property
    def symbol(self) -> str:
        """Its name in compiled code: ``kpg_vm_run``."""
        return f"kpg_{self.file}_{self.__name__}"

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            self.prepare()
            assert self._compiled is not None
        return self._compiled(*args)

    def prepare(self) -> None:
        """Load or compile the kernel now, if it is not; may be interrupted, and be called again then."""
        if self._compiled is None:
            self._compiled = self.compile()
            namespace = self.function.__globals__
            if namespace.get(self.__name__) is self:
                namespace[self.__name__] = self._compiled

    def compile(self) -> Callable[..., Any]:
        """The compiled function, however it is come by."""
        assert _loader is not None, "kpg.runtime.native.load registers it"
        return _loader(self)


_loader: Callable[[Kernel], Callable[..., Any]] | None = None


def loads_kernels(function: Callable[[Kernel], Callable[..., Any]]) -> Callable[[Kernel], Callable[..., Any]]:
    """Register the function that finds or makes the machine code of a kernel."""
    global _loader
    _loader = function
    return function


def kernel(signature: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel with one explicit signature, in numba's words (see ``signature.parse``)."""

    def declare(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, signature)

    return declare


def device(function: Callable[..., Any]) -> Device:
    """Declare a function that kernels of the same file may call."""
    return Device(function)


def inlined(function: Callable[..., Any]) -> Device:
    """Declare a device whose code is to stand wherever it is called, however long it is.

    For what is called for each row: a call hands over several words for each array. Of other devices LLVM
    decides by itself.
    """
    return Device(function, inlined=True)


def load_intrinsic() -> Intrinsic:
    """``load(address, i)``: the i-th int64 behind an address, for kernels that walk several arrays.

    Bind it to a module-level name in the kernel's file. The caller keeps the arrays alive.
    """
    return Intrinsic(memory.make_load, memory.plain_load)


def save_intrinsic() -> Intrinsic:
    """``save(address, i, word)``: write the i-th int64 behind an address."""
    return Intrinsic(memory.make_save, memory.plain_save)


def bit_count_intrinsic() -> Intrinsic:
    """``bit_count(word)``: how many of its bits are set."""
    return Intrinsic(memory.make_bit_count, memory.plain_bit_count)


def lowest_bit_intrinsic() -> Intrinsic:
    """``lowest_bit(word)``: the position of the lowest set bit of a word other than 0."""
    return Intrinsic(memory.make_lowest_bit, memory.plain_lowest_bit)


def view_intrinsic() -> Intrinsic:
    """``view(address, rows, columns)``: the ``int64[rows, columns]`` there; the caller keeps it alive."""
    return Intrinsic(memory.make_view, memory.plain_view)


def small_view_intrinsic() -> Intrinsic:
    """``small_view(address, length)``: the ``int32[length]`` at an address."""
    return Intrinsic(memory.make_small_view, memory.plain_small_view)


def invoke_intrinsic() -> Intrinsic:
    """``invoke(function, slots)``: call the compiled kernel at an address; other than 0 is an exception.

    ``slots`` is the address of its arguments as compiled code takes them; its result comes in the first.
    """
    return Intrinsic(memory.make_invoke, memory.plain_invoke)


PACKAGE: Final = "kpg.runtime.kernels"
"""Where kernel files are: above this package, so that they are found by name."""


def every_kernel() -> list[Kernel]:
    """All kernels that are not loaded, file by file: a loaded one has a function in its place."""
    found: list[Kernel] = []
    for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__):
        names = vars(importlib.import_module(f"{PACKAGE}.{module.name}"))
        found += [value for value in names.values() if isinstance(value, Kernel)]
    return found
