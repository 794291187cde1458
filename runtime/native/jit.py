"""Kernels compiled by numba within this process, with numba's own cache on disk.

Used without a C compiler. Compilation runs in a thread of its own: signals are handled in the main thread, so
none of them can interrupt numba, which would leave it in a broken state.
"""

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from kpg.runtime.native import identity
from kpg.runtime.native.declare import Kernel, build_devices
from kpg.runtime.native.job import Job


def jit(kernel: Kernel) -> Callable[..., Any]:
    """Compile the kernel with numba and return the function.

    Waiting may be interrupted; compilation continues.
    """
    job = _jobs().setdefault(kernel, Job())
    if not job.has_begun:  # a thread whose start was interrupted may exist; all but one return at once
        threading.Thread(target=_work, args=(kernel, job), name=f"kpg compiles {kernel.symbol}").start()
    compiled: Callable[..., Any] = job.wait()
    return compiled


def _work(kernel: Kernel, job: Job) -> None:
    with _compile_lock():
        if job.has_begun:
            return
        job.has_begun = True
        try:
            job.finish(_compile(kernel))
        except BaseException as error:
            job.fail(error)


def _compile(kernel: Kernel) -> Callable[..., Any]:
    import numba  # lazy: kernels are compiled already

    build_devices(kernel.function.__globals__)
    compiled: Any = numba.njit(cache=True, nogil=True)(kernel.function)
    # numba's own stamp covers only the kernel's file, not the files that it imports from.
    compiled._cache._cache_file._source_stamp = identity.content_key(kernel)
    compiled.compile(kernel.signature)
    compiled.disable_compile()
    function: Callable[..., Any] = compiled
    return function


@cache
def _jobs() -> dict[Kernel, Job]:
    return {}


@cache
def _compile_lock() -> threading.Lock:
    return threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_jobs.cache_clear)  # its parent's threads are not there
    os.register_at_fork(after_in_child=_compile_lock.cache_clear)
