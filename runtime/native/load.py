"""From a kernel to its machine code: from the wheel, from the cache, or compiled now.

``kpg.runtime.kernels`` imports this module, which registers :func:`load_kernel` as the loader of kernels.

``KPG_KERNELS`` in the environment selects another way: ``numba`` compiles in the process, ``python``
interprets.
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
from kpg.runtime.native.declare import Kernel, register_loader
from kpg.runtime.native.link import NoCompilerError, cache_path, call_module, processor
from kpg.runtime.native.signature import parse

_logger = logging.getLogger("kpg")
WHEEL_FOLDER: Final = identity.HERE / "shipped"
"""Folder of a wheel with a library for each processor, and ``kernels.json`` with keys of their sources."""


@register_loader
def load_kernel(kernel: Kernel) -> Callable[..., Any]:
    """Return the fastest available function for the kernel."""
    mode = os.environ.get("KPG_KERNELS", "native")
    match mode:
        case "native":
            return _load_native(kernel)
        case "numba":
            return _jit(kernel)
        case "python":
            from kpg.runtime.native.interpret import interpret_kernel  # lazy: for tests alone

            return interpret_kernel(kernel)
        case _:
            raise InterfaceError(
                f"KPG_KERNELS is {mode!r}", hint="leave it out, or set it to native, numba or python"
            )


def are_compiled(kernels: Sequence[Kernel]) -> bool:
    """Return whether these kernels can be loaded without a compiler; if not, start to compile them."""
    if os.environ.get("KPG_KERNELS", "native") != "native":
        return False
    try:
        target = processor()
        missing = [
            kernel for kernel in kernels if not is_wheel() and not cache_path(kernel, target).is_file()
        ]
        if missing:
            from kpg.runtime.native.workers import compiler_pool  # lazy: kernels are compiled already

            compiler_pool().begin(missing)
        return not missing
    except NoCompilerError:
        return False


def _load_native(kernel: Kernel) -> Callable[..., Any]:
    function = _load_from_wheel(kernel)
    if function is not None:
        return function
    try:
        path = cache_path(kernel, processor())
        if not path.is_file():
            from kpg.runtime.native.workers import compiler_pool  # lazy: kernels are compiled already

            compiler_pool().wait(kernel)
        return _open_kernel(path, kernel)
    except NoCompilerError as error:
        _report_no_compiler(str(error))
        return _jit(kernel)


def _jit(kernel: Kernel) -> Callable[..., Any]:
    from kpg.runtime.native.jit import jit  # lazy: where there is no C compiler

    return jit(kernel)


@cache
def _report_no_compiler(reason: str) -> None:
    message = (
        f"kpg's kernels are compiled by numba, one at a time, and numba is imported at every start: {reason}"
    )
    if sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)
    else:
        _logger.warning(message)


def _load_from_wheel(kernel: Kernel) -> Callable[..., Any] | None:
    """Return the kernel of the wheel's library if it was compiled from the current text; else None."""
    contents = _wheel_keys()
    if not contents:
        return None
    if contents.get(kernel.symbol) != identity.content_key(kernel):
        _logger.info("kernel %s is not what was compiled into the wheel", kernel.symbol)
        return None
    path = WHEEL_FOLDER / f"{processor()}.so"
    return _open_kernel(path, kernel) if path.is_file() else None


def is_wheel() -> bool:
    """Return whether this is a wheel with compiled kernels."""
    return bool(_wheel_keys())


@cache
def _wheel_keys() -> dict[str, str]:
    """Return the content key of each symbol in the wheel's libraries; empty in a checkout."""
    try:
        text = (WHEEL_FOLDER / "kernels.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    import json  # lazy: by wheels alone

    contents: dict[str, str] = json.loads(text)
    return contents


def _open_kernel(path: Path, kernel: Kernel) -> Callable[..., Any]:
    function: Callable[..., Any] = call_module().function(
        _library(path), kernel.symbol, f"{kernel.file}.{kernel.__name__}", parse(kernel.signature).text
    )
    return function


@cache
def _library(path: Path) -> Any:
    return call_module().open(path)
