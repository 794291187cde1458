"""Compiles all kernels for a wheel: ``python -m kpg.runtime.native.ship FOLDER``.

The folder becomes this package in the wheel. It gets the module of ``call.c`` and ``shipped/``: a library for
each processor, and ``kernels.json`` with the content key of each kernel.
"""

import json
import multiprocessing
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from kpg.runtime.native import emit, identity, link, load
from kpg.runtime.native.declare import every_kernel
from kpg.runtime.native.workers import available_processors

GENERIC = "generic"


def main(folder: Path) -> None:
    """Fill the folder and print the progress to standard output."""
    shipped = folder / load.WHEEL_FOLDER.name
    shipped.mkdir(parents=True, exist_ok=True)
    link.build_call(folder / f"_call{link.SUFFIX}")
    targets = processor_names()
    kernels = every_kernel()
    files = sorted({kernel.file for kernel in kernels}, key=lambda file: -_size(file))
    spawn = multiprocessing.get_context("spawn")
    objects: list[dict[str, list[bytes]]] = []
    with ProcessPoolExecutor(available_processors(), mp_context=spawn, initializer=emit.prepare) as pool:
        for number, compiled in enumerate(pool.map(emit_file, files, [targets] * len(files)), 1):
            objects.append(compiled)
            print(f"compiled kernel files: {number} of {len(files)}", flush=True)
    for place, target in enumerate(targets):
        codes = [codes[place] for compiled in objects for codes in compiled.values()]
        link.link(codes, shipped / f"{target}.so")
    contents = {kernel.symbol: identity.content_key(kernel) for kernel in kernels}
    (shipped / "kernels.json").write_text(json.dumps(contents, indent=1), encoding="utf-8")


def emit_file(file: str, targets: tuple[str, ...]) -> dict[str, list[bytes]]:
    """Return the object code of a file's kernels for each of ``targets``, by symbol."""
    return {kernel.symbol: emit.emit(kernel, targets) for kernel in every_kernel() if kernel.file == file}


def processor_names() -> tuple[str, ...]:
    """Return the processors that a wheel for this platform supports."""
    if platform.machine() in ("x86_64", "AMD64"):
        return tuple(name for name in identity.PROCESSORS.values() if name != GENERIC)
    return (GENERIC,)


def _size(file: str) -> int:
    return (identity.HERE.parent / "kernels" / f"{file}.py").stat().st_size


if __name__ == "__main__":
    main(Path(sys.argv[1]))
