"""Kernels compiled by numba within this process, kept in numba's own cache on disk.

The way where there is no C compiler. The compiler runs in a thread of its own: signals are handled in the
main thread, so that none of them can stop it midway, which numba does not survive.
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
    """The function that numba makes of the kernel. Whoever waits may be interrupted; compiling goes on."""
    job = _jobs().setdefault(kernel, Job())
    if not job.begun:  # a thread whose start was interrupted may be about to; one of them returns
        threading.Thread(target=_work, args=(kernel, job), name=f"kpg compiles {kernel.symbol}").start()
    compiled: Callable[..., Any] = job.wait()
    return compiled


def _work(kernel: Kernel, job: Job) -> None:
    with _one_at_a_time():
        if job.begun:
            return
        job.begun = True
        try:
            job.finish(_compile(kernel))
        except BaseException as error:
            job.fail(error)


def _compile(kernel: Kernel) -> Callable[..., Any]:
    import numba  # lazy: kernels are compiled already

    build_devices(kernel.function.__globals__)
    compiled: Any = numba.njit(cache=True, nogil=True)(kernel.function)
    # numba's cache would look at the kernel's own file only, not at those that it imports from.
    compiled._cache._cache_file._source_stamp = identity.content(kernel)
    compiled.compile(kernel.signature)
    compiled.disable_compile()
    found: Callable[..., Any] = compiled
    return found


@cache
def _jobs() -> dict[Kernel, Job]:
    return {}


@cache
def _one_at_a_time() -> threading.Lock:
    return threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_jobs.cache_clear)  # its parent's threads are not there
    os.register_at_fork(after_in_child=_one_at_a_time.cache_clear)
