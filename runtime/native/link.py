"""The system's C compiler: objects to shared libraries, and ``call.c`` to the module that calls kernels.

It also says in which folder the libraries are, and for which processor they are compiled.
What only compiling needs is imported where it does: every start imports this file.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import stat
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kpg.runtime.errors import InternalError
from kpg.runtime.native import identity
from kpg.runtime.native.declare import Kernel

SUFFIX: Final = importlib.machinery.EXTENSION_SUFFIXES[0]
"""Of a module for this Python on this platform."""


class CannotLink(Exception):
    """There is no C compiler here, or it refuses; says why."""


def compiler() -> list[str]:
    """The command of the C compiler: ``CC``, or the first of cc, gcc and clang that is there.

    Raises ``CannotLink``.
    """
    import shlex  # lazy: only compiling needs it
    import shutil  # lazy: only compiling needs it

    if not (sys.platform.startswith("linux") or sys.platform == "darwin"):
        raise CannotLink(f"kernels are not compiled ahead of time on {sys.platform}")
    given = shlex.split(os.environ.get("CC", ""))
    for command in [given] if given else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    raise CannotLink(f"no C compiler: {' '.join(given) or 'cc, gcc, clang'} not found")


def link(objects: Sequence[bytes], target: Path) -> None:
    """Make a shared library of objects; it is there whole or not at all.

    Raises ``CannotLink``, and ``InternalError`` if they need what ``support.c`` and Python do not have.
    """
    import ctypes  # lazy: only compiling needs it
    import tempfile  # lazy: only compiling needs it

    with tempfile.TemporaryDirectory(prefix="kpg-link-") as name:
        files = []
        for number, code in enumerate(objects):
            files.append(Path(name) / f"{number}.o")
            files[-1].write_bytes(code)
        _make(["-O2", *map(str, files), str(identity.HERE / "support.c"), "-lm"], target)
    try:
        ctypes.CDLL(str(target))
    except OSError as error:
        target.unlink()
        raise InternalError(f"a kernel uses what compiled code does not have: {error}") from error


def build_call(target: Path) -> None:
    """Compile ``call.c`` for the Python that runs. Raises ``CannotLink``."""
    import sysconfig  # lazy: only compiling needs it

    import numpy  # lazy: compiling processes that only link do without

    headers = [sysconfig.get_paths()["include"], sysconfig.get_paths()["platinclude"], numpy.get_include()]
    _make(["-O2", *(f"-I{folder}" for folder in headers), str(identity.HERE / "call.c"), "-ldl"], target)


def _make(rest: Sequence[str], target: Path) -> None:
    """Run the C compiler for a shared library, and put that into its place at once."""
    import subprocess  # lazy: only compiling needs it

    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler(), "-shared", "-fPIC", *undefined, "-o", str(part), *rest]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotLink(f"{command[0]} failed: {done.stderr.strip()[-400:]}")
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


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
    import tempfile  # lazy: only compiling needs it

    path = Path(tempfile.gettempdir(), f"kpg-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise CannotLink(f"others can write to {path}")
    return path
