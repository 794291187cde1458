"""The compiler process: reads orders, one JSON list per line, and answers each with null or an error text.

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

_LOCK_BYTES = 1 << 30
"""Bytes of the lock file among which kernels are distributed by name."""


def main() -> None:
    """Serve orders until the input ends or the reader of the answers is gone."""
    emit.prepare()
    kernels: dict[tuple[str, str], Kernel] = {}
    for line in sys.stdin:
        module, name, processor, target = json.loads(line)
        names = vars(importlib.import_module(module))
        kernels.update(((module, key), value) for key, value in names.items() if isinstance(value, Kernel))
        error = _compile(kernels[module, name], processor, Path(target))
        try:
            print(json.dumps(error), flush=True)
        except BrokenPipeError:  # the requester was killed; the compiled kernel stays
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def _compile(kernel: Kernel, processor: str, target: Path) -> str | None:
    try:
        with _lock(target):
            if not target.is_file():
                (code,) = emit.emit(kernel, [processor])
                link.link([code], target)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Hold the lock of a target: one byte of a common lock file, released when its holder dies."""
    import fcntl  # lazy: there is none on Windows

    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / ".kpg-compiles", "a+b") as file:
        offset = int.from_bytes(os.fsencode(target.name)[-16:], "little") % _LOCK_BYTES
        fcntl.lockf(file, fcntl.LOCK_EX, 1, offset)
        try:
            yield
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, offset)


if __name__ == "__main__":
    main()
