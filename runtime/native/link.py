"""The system's C compiler: objects to shared libraries, and ``call.c`` to the module that calls kernels.

What only compiling needs is imported where it does: every start imports this file.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kpg.runtime.errors import InternalError
from kpg.runtime.native.identity import HERE


class CannotLink(Exception):
    """There is no C compiler here, or it refuses; says why."""


def compiler() -> list[str]:
    """The command of the C compiler: ``CC``, or the first of cc, gcc and clang that is there.

    Raises ``CannotLink``.
    """
    import shlex
    import shutil

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
    import ctypes
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kpg-link-") as name:
        files = []
        for number, code in enumerate(objects):
            files.append(Path(name) / f"{number}.o")
            files[-1].write_bytes(code)
        _make(["-O2", *map(str, files), str(HERE / "support.c"), "-lm"], target)
    try:
        ctypes.CDLL(str(target))
    except OSError as error:
        target.unlink()
        raise InternalError(f"a kernel uses what compiled code does not have: {error}") from error


def build_call(target: Path) -> None:
    """Compile ``call.c`` for the Python that runs. Raises ``CannotLink``."""
    import sysconfig

    import numpy

    headers = [sysconfig.get_paths()["include"], sysconfig.get_paths()["platinclude"], numpy.get_include()]
    _make(["-O2", *(f"-I{folder}" for folder in headers), str(HERE / "call.c"), "-ldl"], target)


def _make(rest: Sequence[str], target: Path) -> None:
    """Run the C compiler for a shared library, and put that into its place at once."""
    import subprocess

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
