"""What a kernel's machine code depends on, as a key: code with another key is never run.

A key covers the text of the kernel's file and of the kernel files it imports, its signature, this package's
own text, the versions of kpg and numba, and the processor it is compiled for.
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
EMITTERS: Final = ("emit.py", "memory.py", "signature.py", "support.c")
"""The files of this package that decide what machine code is."""
PROCESSORS: Final = {3: "x86-64-v3", 2: "x86-64-v2", 0: "generic"}
"""LLVM's name of the processor to compile for, by what ``call.c`` calls the level of one.

Level 4 (AVX-512) gained nothing over 3 in any kernel that was measured; at level 2 a filter of integers takes
1.7 times as long.
"""
_IMPORT: Final = re.compile(r"^(?:from|import) kpg\.runtime\.kernels(?:\.(\w+)| import (.+))", re.MULTILINE)


def key(kernel: Kernel, processor: str) -> str:
    """The key of a kernel's machine code for one of ``PROCESSORS``, made by the numba that is here."""
    return _digest(content(kernel), numba_version(), processor)


def content(kernel: Kernel) -> str:
    """The part of a key that does not depend on who compiles and for what."""
    return _digest(
        _source(Path(kernel.function.__code__.co_filename)), kernel.signature, kernel.symbol, _base()
    )


@cache
def numba_version() -> str:
    """The version of numba, which need not be imported for this; empty if it is not there."""
    found = importlib.util.find_spec("numba")
    if found is None or found.origin is None:
        return ""
    return _digest((Path(found.origin).parent / "_version.py").read_text(encoding="utf-8"))


def call_key() -> str:
    """The key of ``call.c`` compiled here; its file's suffix says for which Python."""
    return _digest((HERE / "call.c").read_text(encoding="utf-8"), numpy.__version__)


@cache
def _base() -> str:
    """What all kernels have in common."""
    texts = [(HERE / name).read_text(encoding="utf-8") for name in EMITTERS]
    version = importlib.import_module("kpg").__version__
    return _digest(*texts, version, sys.platform, platform.machine())


@cache
def _source(path: Path) -> str:
    """A digest of a kernel file's text and of the kernel files that it imports."""
    text = path.read_text(encoding="utf-8")
    names = {name for found in _IMPORT.findall(text) for name in re.findall(r"\w+", " ".join(found))}
    beside = sorted(path.with_name(f"{name}.py") for name in names)
    return _digest(text, *(_source(other) for other in beside if other != path and other.is_file()))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
