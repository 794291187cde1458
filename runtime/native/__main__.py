"""The process that compiles: reads orders, a JSON list a line, and answers each: null, or the error.

An order is (module, kernel, processor, target).
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kpg.runtime.native import emit, link
from kpg.runtime.native.declare import Kernel

_SPREAD = 1 << 30
"""Names of kernels are spread over so many bytes of the lock file."""


def main() -> None:
    """Serve until the input ends, or nobody hears the answers."""
    emit.prepare()
    known: dict[tuple[str, str], Kernel] = {}
    for line in sys.stdin:
        module, name, processor, target = json.loads(line)
        names = vars(importlib.import_module(module))
        known.update(((module, key), value) for key, value in names.items() if isinstance(value, Kernel))
        error = _serve(known[module, name], processor, Path(target))
        try:
            print(json.dumps(error), flush=True)
        except BrokenPipeError:  # who asked was killed; what is compiled is kept
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def _serve(kernel: Kernel, processor: str, target: Path) -> str | None:
    try:
        with _locked(target):
            if not target.is_file():
                (code,) = emit.emit(kernel, [processor])
                link.link([code], target)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock for a target: a byte of a file that all have in common, free when its holder dies."""
    import fcntl  # lazy: there is none on Windows

    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / ".kpg-compiles", "a+b") as file:
        at = int.from_bytes(os.fsencode(target.name)[-16:], "little") % _SPREAD
        fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
        try:
            yield
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, at)


if __name__ == "__main__":
    main()
