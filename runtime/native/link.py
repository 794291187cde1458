"""The system's C compiler: links objects to shared libraries, and compiles ``call.c``, which calls kernels.

It also determines the cache folder, and the processor that kernels are compiled for. Imports that only
compilation needs are inside functions: every start imports this file.
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
"""File suffix of an extension module for this Python on this platform."""


class NoCompilerError(Exception):
    """There is no usable C compiler, or it has failed; the message says why."""


def compiler_command() -> list[str]:
    """Return the command of the C compiler: ``CC``, or the first of cc, gcc and clang that exists.

    Raises:
        NoCompilerError: If there is none.
    """
    import shlex  # lazy: only compiling needs it
    import shutil  # lazy: only compiling needs it

    if not (sys.platform.startswith("linux") or sys.platform == "darwin"):
        raise NoCompilerError(f"kernels are not compiled ahead of time on {sys.platform}")
    configured = shlex.split(os.environ.get("CC", ""))
    for command in [configured] if configured else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    raise NoCompilerError(f"no C compiler: {' '.join(configured) or 'cc, gcc, clang'} not found")


def link(objects: Sequence[bytes], target: Path) -> None:
    """Link objects to a shared library, which appears atomically.

    Raises:
        NoCompilerError: If the compiler fails.
        InternalError: If they need symbols that ``support.c`` and Python do not have.
    """
    import ctypes  # lazy: only compiling needs it
    import tempfile  # lazy: only compiling needs it

    with tempfile.TemporaryDirectory(prefix="kpg-link-") as name:
        files = []
        for number, code in enumerate(objects):
            files.append(Path(name) / f"{number}.o")
            files[-1].write_bytes(code)
        _build_library(["-O2", *map(str, files), str(identity.HERE / "support.c"), "-lm"], target)
    try:
        ctypes.CDLL(str(target))
    except OSError as error:
        target.unlink()
        raise InternalError(f"a kernel uses a symbol that is not available: {error}") from error


def build_call(target: Path) -> None:
    """Compile ``call.c`` for the running Python.

    Raises:
        NoCompilerError: If there is no usable compiler.
    """
    import sysconfig  # lazy: only compiling needs it

    import numpy  # lazy: compiling processes that only link do without

    headers = [sysconfig.get_paths()["include"], sysconfig.get_paths()["platinclude"], numpy.get_include()]
    _build_library(
        ["-O2", *(f"-I{folder}" for folder in headers), str(identity.HERE / "call.c"), "-ldl"], target
    )


def _build_library(arguments: Sequence[str], target: Path) -> None:
    """Run the C compiler to build a shared library, and rename it to its target."""
    import subprocess  # lazy: only compiling needs it

    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler_command(), "-shared", "-fPIC", *undefined, "-o", str(part), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise NoCompilerError(f"{command[0]} failed: {result.stderr.strip()[-400:]}")
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@cache
def call_module() -> Any:
    """Return the module of ``call.c``: the wheel's, or one compiled for this Python.

    Raises:
        NoCompilerError: If it cannot be compiled.
    """
    name = "kpg.runtime.native._call"
    path = identity.HERE / f"_call{SUFFIX}"
    if not path.is_file():
        path = cache_folder() / f"_call-{identity.call_key()}{SUFFIX}"
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
    """Return the best of ``PROCESSORS`` that this machine supports.

    Raises:
        NoCompilerError: If the processor is too old.
    """
    level = call_module().level()
    if level not in identity.PROCESSORS:
        raise NoCompilerError("this processor is older than x86-64-v2")
    return identity.PROCESSORS[level]


def cache_path(kernel: Kernel, target: str) -> Path:
    """Return the path of a kernel's machine code, whether it is compiled or not."""
    return cache_folder() / f"{kernel.file}.{kernel.__name__}.{target}.{identity.key(kernel, target)}.so"


@cache
def cache_folder() -> Path:
    """Return the folder of compiled kernels.

    It is ``KPG_CACHE_DIR``, a folder beside the kernels, or the user's cache.

    A user without a writable home, such as a service's, has a temporary folder.

    Raises:
        NoCompilerError: If other users could write machine code there.
    """
    configured = os.environ.get("KPG_CACHE_DIR")
    if configured:
        return Path(configured)
    beside = identity.HERE.parent / "kernels" / "__pycache__"
    if os.access(beside if beside.is_dir() else beside.parent, os.W_OK):
        return beside
    try:
        user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kpg"
        user_cache.mkdir(parents=True, exist_ok=True)
        if os.access(user_cache, os.W_OK):
            return user_cache
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        pass
    return _temporary_folder()


def _temporary_folder() -> Path:
    import tempfile  # lazy: only compiling needs it

    path = Path(tempfile.gettempdir(), f"kpg-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise NoCompilerError(f"others can write to {path}")
    return path
