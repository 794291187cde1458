"""Command line: ``kpg sql``, ``kpg explain``, ``kpg datalog``, ``kpg tpch``, ``kpg functions`` and others.

Commands import their modules when they run, which keeps ``kpg --help`` fast.
"""

import atexit
import gc
import os
import sys

from kpg.runtime.gc_pause import pause_collector


def main() -> None:
    """Run the command line and exit: 0 for success, 1 for an error, 2 for wrong usage, 130 if interrupted."""
    atexit.register(_skip_final_collection)
    with pause_collector():
        from kpg.cli.commands import app  # lazy: imported while the collector rests
        from kpg.runtime.errors import Error  # lazy: imported while the collector rests

    try:
        app(prog_name="kpg")
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the pipe has closed it; without this, flushing at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _skip_final_collection() -> None:
    """Skip the garbage collection at exit, which takes longer than a short command.

    Not with DuckDB, whose binding reports objects that were not freed.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()
