"""The command line: ``kpg sql``, ``kpg explain``, ``kpg datalog``, ``kpg tpch``, ``kpg functions``.

Commands import what they run when they run it, so that ``kpg --help`` is quick.
"""

import os
import sys


def main() -> None:
    """Run the command line and exit: 0 well, 1 an error, 2 wrong usage, 130 interrupted."""
    from kpg.cli.commands import app
    from kpg.runtime.errors import Error

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
