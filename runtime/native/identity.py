"""Keys of machine code, which cover everything that it depends on. Code with another key is not run.

A key covers the text of the kernel's file and of the kernel files it imports, its signature, and this
package's own text. It also covers the versions of kpg and numba, and the processor.
"""

import hashlib
import importlib
import importlib.util
import platform
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final

import numpy

from kpg.runtime.native.declare import Kernel

HERE: Final = Path(__file__).parent
EMITTER_FILES: Final = ("emit.py", "memory.py", "signature.py", "support.c")
"""Files of this package that determine machine code."""
PROCESSORS: Final = {3: "x86-64-v3", 2: "x86-64-v2", 0: "generic"}
"""LLVM's name of the processor to compile for, by the level that ``call.c`` returns.

Level 4 (AVX-512) gained nothing over 3 in any measured kernel; at level 2 a filter of integers takes 1.7
times as
long.
"""
_IMPORT: Final = re.compile(r"^(?:from|import) kpg\.runtime\.kernels(?:\.(\w+)| import (.+))", re.MULTILINE)


def key(kernel: Kernel, processor: str) -> str:
    """Return the key of a kernel's machine code for one of ``PROCESSORS``, by the installed numba."""
    return _digest(content_key(kernel), numba_version(), processor)


def content_key(kernel: Kernel) -> str:
    """Return the part of a key that is independent of numba and the processor."""
    return _digest(
        _source_key(Path(kernel.function.__code__.co_filename)),
        kernel.signature,
        kernel.symbol,
        _common_key(),
    )


@cache
def numba_version() -> str:
    """Return a digest of numba's version without importing it; empty if it is not installed."""
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        return ""
    return _digest((Path(spec.origin).parent / "_version.py").read_text(encoding="utf-8"))


def call_key() -> str:
    """Return the key of ``call.c`` compiled here; its file's suffix names the Python version."""
    return _digest((HERE / "call.c").read_text(encoding="utf-8"), numpy.__version__)


@cache
def _common_key() -> str:
    """Return the part of a key that all kernels share."""
    texts = [(HERE / name).read_text(encoding="utf-8") for name in EMITTER_FILES]
    version = importlib.import_module("kpg").__version__
    return _digest(*texts, version, sys.platform, platform.machine())


@cache
def _source_key(path: Path) -> str:
    """Return a digest of a kernel file's text and of the kernel files that it imports."""
    text = path.read_text(encoding="utf-8")
    names = {name for found in _IMPORT.findall(text) for name in re.findall(r"\w+", " ".join(found))}
    imported = sorted(path.with_name(f"{name}.py") for name in names)
    return _digest(text, *(_source_key(other) for other in imported if other != path and other.is_file()))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
