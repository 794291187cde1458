"""Kernels compiled by numba within this process, kept in numba's own cache on disk.

The way where there is no C compiler. The compiler runs in a thread of its own: signals are handled in the
main thread, so that none of them can stop it midway, which numba does not survive.
"""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from kpg.runtime.native import identity
from kpg.runtime.native.declare import Kernel, build_devices
from kpg.runtime.native.job import Job


def jit(kernel: Kernel) -> Callable[..., Any]:
    """The function that numba makes of the kernel. Whoever waits may be interrupted; compiling goes on."""
    compiled: Callable[..., Any] = _started(kernel).wait()
    return compiled


@cache
def _started(kernel: Kernel) -> Job:
    """The compilation of the kernel, begun."""
    job = Job()

    def work() -> None:
        try:
            job.finish(_compile(kernel))
        except BaseException as error:
            job.fail(error)

    threading.Thread(target=work, name=f"kpg compiles {kernel.symbol}").start()
    return job


def _compile(kernel: Kernel) -> Callable[..., Any]:
    import numba

    with _one_at_a_time():
        build_devices(kernel.function.__globals__)
        compiled: Any = numba.njit(cache=True, nogil=True)(kernel.function)
        # numba's cache would look at the kernel's own file only, not at those that it imports from.
        compiled._cache._cache_file._source_stamp = identity.content(kernel)
        compiled.compile(kernel.signature)
        compiled.disable_compile()
    found: Callable[..., Any] = compiled
    return found


@cache
def _one_at_a_time() -> threading.Lock:
    return threading.Lock()
