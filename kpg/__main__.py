"""``python -m kpg``: the command line."""

from kpg.cli import main

main()
