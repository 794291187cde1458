"""From a kernel to its machine code: the wheel's, the cache's, or compiled now.

``kpg.runtime.kernels`` imports this module, which registers :func:`compiled` as the loader of kernels.

``KPG_KERNELS`` in the environment says otherwise: ``numba`` compiles in the process, ``python`` not at all.
"""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.native import identity
from kpg.runtime.native.declare import Kernel, loads_kernels
from kpg.runtime.native.link import CannotLink, cached, call, processor
from kpg.runtime.native.signature import parse

_logger = logging.getLogger("kpg")
SHIPPED: Final = identity.HERE / "shipped"
"""Where a wheel has a library for each processor, and ``kernels.json``: what they were compiled from."""


@loads_kernels
def compiled(kernel: Kernel) -> Callable[..., Any]:
    """A function that does what the kernel says, as fast as is to be had here."""
    mode = os.environ.get("KPG_KERNELS", "native")
    match mode:
        case "native":
            return _native(kernel)
        case "numba":
            return _jit(kernel)
        case "python":
            from kpg.runtime.native.interpret import interpreted  # lazy: for tests alone

            return interpreted(kernel)
        case _:
            raise InterfaceError(
                f"KPG_KERNELS is {mode!r}", hint="leave it out, or set it to native, numba or python"
            )


def at_hand(kernels: Sequence[Kernel]) -> bool:
    """Whether loading these kernels takes no compiler; if it does, they are compiled from now on."""
    if os.environ.get("KPG_KERNELS", "native") != "native":
        return False
    try:
        target = processor()
        missing = [kernel for kernel in kernels if not is_shipped() and not cached(kernel, target).is_file()]
        if missing:
            from kpg.runtime.native.workers import workers  # lazy: kernels are compiled already

            workers().begin(missing)
        return not missing
    except CannotLink:
        return False


def _native(kernel: Kernel) -> Callable[..., Any]:
    shipped = _from_wheel(kernel)
    if shipped is not None:
        return shipped
    try:
        path = cached(kernel, processor())
        if not path.is_file():
            from kpg.runtime.native.workers import workers  # lazy: kernels are compiled already

            workers().wait(kernel)
        return _open(path, kernel)
    except CannotLink as error:
        _tell_no_linker(str(error))
        return _jit(kernel)


def _jit(kernel: Kernel) -> Callable[..., Any]:
    from kpg.runtime.native.jit import jit  # lazy: where there is no C compiler

    return jit(kernel)


@cache
def _tell_no_linker(why: str) -> None:
    message = (
        f"kpg's kernels are compiled by numba, one at a time, and numba is imported at every start: {why}"
    )
    if sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)
    else:
        _logger.warning(message)


def _from_wheel(kernel: Kernel) -> Callable[..., Any] | None:
    """The kernel of the wheel's library, if that was made from this very text."""
    contents = _shipped_contents()
    if not contents:
        return None
    if contents.get(kernel.symbol) != identity.content(kernel):
        _logger.info("kernel %s is not what was compiled into the wheel", kernel.symbol)
        return None
    path = SHIPPED / f"{processor()}.so"
    return _open(path, kernel) if path.is_file() else None


def is_shipped() -> bool:
    """Whether this is a wheel that has compiled kernels."""
    return bool(_shipped_contents())


@cache
def _shipped_contents() -> dict[str, str]:
    """What the wheel's libraries were compiled from, by symbol; empty in a checkout."""
    try:
        text = (SHIPPED / "kernels.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    import json  # lazy: by wheels alone

    contents: dict[str, str] = json.loads(text)
    return contents


def _open(path: Path, kernel: Kernel) -> Callable[..., Any]:
    function: Callable[..., Any] = call().function(
        _library(path), kernel.symbol, f"{kernel.file}.{kernel.__name__}", parse(kernel.signature).text
    )
    return function


@cache
def _library(path: Path) -> Any:
    return call().open(path)
