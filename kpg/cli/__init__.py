"""Command line: ``kpg sql``, ``kpg explain``, ``kpg datalog``, ``kpg tpch``, ``kpg functions`` and others.

Commands import their modules when they run, which keeps ``kpg --help`` fast.
"""

import atexit
import gc
import os
import sys

from kpg.gc_pause import collector_at_rest


def main() -> None:
    """Run the command line and exit: 0 well, 1 an error, 2 wrong usage, 130 interrupted."""
    atexit.register(_leave)
    with collector_at_rest():
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
        # The reader of a pipe went away; without this, flushing at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _leave() -> None:
    """End without looking for cycles, which takes longer than a short command: the memory goes as a whole.

    Not where there is DuckDB: its binding says at the end what was not given back piece by piece.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()
