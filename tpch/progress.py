"""The stages of a long job: a bar while one runs on a terminal, one plain line when it is done."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kpg.tpch.report import duration

Advance = Callable[[str], None]


@contextmanager
def stage(console: Console, title: str, steps: int) -> Iterator[Advance]:
    """Show a stage of ``steps`` steps; the block calls what it is given with the name of each next step."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start = time.perf_counter()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=steps)
        begun = False

        def advance(step: str) -> None:
            nonlocal begun
            progress.update(task, description=f"{title}: {step}", advance=1 if begun else 0)
            begun = True

        yield advance
    console.print(f"{title}: {duration(time.perf_counter() - start)}", highlight=False)
