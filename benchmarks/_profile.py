"""Where the time of a stream goes: by operator, and by function."""

import cProfile
from collections.abc import Sequence
from pathlib import Path

from _stream import Epoch, replay

from kpg.runtime.worker.worker import Worker

PROFILED = 12


def print_operators(number: int, worker: Worker, seconds: float) -> None:
    """The operators' flushes, the costliest first; the rest is the row store and the upkeep of traces."""
    found = sorted(worker.operators(), key=lambda one: -one.seconds)
    rest = seconds - sum(one.seconds for one in found)
    print(f"\nq{number}: {seconds:.2f} s, of which {rest:.2f} s outside the operators' flushes")
    for one in found[:PROFILED]:
        share = f"{one.seconds:7.3f} s {100 * one.seconds / seconds:5.1f}%"
        flow = f"{one.updates_in:>11,} in {one.updates_out:>11,} out {one.rows:>11,} held"
        print(f"{share} {flow}  {one.position:>3} {one.description} <- {one.inputs}")


def print_functions(worker: Worker, stream: Sequence[Epoch], physical: int) -> None:
    """Another run under Python's profiler: the functions by their own time, kernels under their callers'."""
    profile = cProfile.Profile()
    profile.runcall(replay, worker, stream, physical)
    total = sum(entry.inlinetime for entry in profile.getstats())
    for entry in sorted(profile.getstats(), key=lambda entry: -entry.inlinetime)[:PROFILED]:
        where = entry.code
        name = where if isinstance(where, str) else f"{Path(where.co_filename).stem}.{where.co_qualname}"
        share = f"{entry.inlinetime:7.3f} s {100 * entry.inlinetime / total:5.1f}%"
        print(f"{share} {entry.totaltime:9.3f} s with callees {entry.callcount:>9,} calls  {name}")
