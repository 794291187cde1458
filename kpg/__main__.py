"""``python -m kpg`` runs the command line."""

from kpg.cli import main

main()
