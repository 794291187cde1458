"""From a kernel to its machine code: the wheel's, the cache's, or compiled now.

``KPG_KERNELS`` in the environment says otherwise: ``numba`` compiles in the process, ``python`` not at all.
"""

import contextlib
import importlib.machinery
import importlib.util
import logging
import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.native import identity
from kpg.runtime.native.declare import Kernel
from kpg.runtime.native.link import CannotLink, build_call
from kpg.runtime.native.signature import parse

_logger = logging.getLogger("kpg")
SHIPPED: Final = identity.HERE / "shipped"
"""Where a wheel has a library for each processor, and ``kernels.json``: what they were compiled from."""
SUFFIX: Final = importlib.machinery.EXTENSION_SUFFIXES[0]
"""Of a module for this Python on this platform."""


def compiled(kernel: Kernel) -> Callable[..., Any]:
    """A function that does what the kernel says, as fast as is to be had here."""
    mode = os.environ.get("KPG_KERNELS", "native")
    match mode:
        case "native":
            return _native(kernel)
        case "numba":
            return _jit(kernel)
        case "python":
            from kpg.runtime.native.interpret import interpreted

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
            from kpg.runtime.native.workers import workers

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
            from kpg.runtime.native.workers import workers

            workers().wait(kernel)
        return _open(path, kernel)
    except CannotLink as error:
        _tell_no_linker(str(error))
        return _jit(kernel)


def _jit(kernel: Kernel) -> Callable[..., Any]:
    from kpg.runtime.native.jit import jit

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
    import json  # by wheels alone

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


@cache
def call() -> Any:
    """The module of ``call.c``: the wheel's, or one compiled for this Python. Raises ``CannotLink``."""
    name = "kpg.runtime.native._call"
    path = identity.HERE / f"_call{SUFFIX}"
    if not path.is_file():
        path = folder() / f"_call-{identity.call_key()}{SUFFIX}"
        if not path.is_file():
            build_call(path)
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def processor() -> str:
    """The widest of ``PROCESSORS`` that this machine has. Raises ``CannotLink`` for one that is too old."""
    level = call().level()
    if level not in identity.PROCESSORS:
        raise CannotLink("this processor is older than x86-64-v2")
    return identity.PROCESSORS[level]


def cached(kernel: Kernel, target: str) -> Path:
    """Where the machine code of a kernel is, or will be once it is compiled."""
    return folder() / f"{kernel.file}.{kernel.__name__}.{target}.{identity.key(kernel, target)}.so"


@cache
def folder() -> Path:
    """Where compiled kernels are kept: ``KPG_CACHE_DIR``, beside the kernels, or in the user's cache.

    A user without a home that could be written to, such as a service's, has a folder for what is temporary.
    Raises ``CannotLink`` if somebody else could put machine code there.
    """
    given = os.environ.get("KPG_CACHE_DIR")
    if given:
        return Path(given)
    beside = identity.HERE.parent / "kernels" / "__pycache__"
    if os.access(beside if beside.is_dir() else beside.parent, os.W_OK):
        return beside
    try:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kpg"
        kept.mkdir(parents=True, exist_ok=True)
        if os.access(kept, os.W_OK):
            return kept
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        pass
    return _temporary()


def _temporary() -> Path:
    import tempfile

    path = Path(tempfile.gettempdir(), f"kpg-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise CannotLink(f"others can write to {path}")
    return path
