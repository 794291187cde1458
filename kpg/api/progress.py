"""Progress bars on a terminal, removed when the work is done, or below a notebook cell.

Work is shown after one second. By default it is shown only if standard error is a terminal, or in Jupyter.
Loads, view creation, queries, opening of folders and checkpoints report their progress
(``runtime/progress_report.py``).
"""

import os
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol

from kpg.runtime.progress_report import ProgressCallback, set_observer

DELAY: Final = 1.0
"""Seconds before a bar appears: for less, it would flicker."""
REDRAW_INTERVAL: Final = 0.1
"""Seconds between two redraws."""
_configured: Final = list[bool]()


def show_progress(shown: bool | None = None) -> None:
    """Set whether bars are drawn: True on standard error, False never, None on terminals and in notebooks."""
    _configured.append(True)
    set_observer(None if shown is False else Bars(always=shown is True))


def enable_by_default() -> None:
    """Enable bars, unless :func:`show_progress` has been called."""
    if not _configured:
        show_progress()


class Screen(Protocol):
    """A place where bars are drawn."""

    def draw(self, task: str, done: int, total: int | None, text: str) -> None:
        """Draw in place of the last drawing."""

    def clear(self) -> None:
        """Remove the drawing."""


class Terminal:
    """A line of a terminal, on standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def draw(self, task: str, done: int, total: int | None, text: str) -> None:
        """Draw in place of the last drawing."""
        if self._bar is None:
            self._begin()
        self._bar.update(self._task, total=total, completed=done, description=task, text=text, refresh=True)

    def _begin(self) -> None:
        from rich.console import Console  # lazy: only a terminal shows it
        from rich.progress import BarColumn, Progress, TextColumn  # lazy: only a terminal shows it

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self._bar = Progress(
            *columns,
            console=Console(stderr=True, force_terminal=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None, text="")
        self._bar.start()

    def clear(self) -> None:
        """Remove the drawing."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Notebook:
    """A line below a cell of Jupyter."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, task: str, done: int, total: int | None, text: str) -> None:
        """Draw in place of the last drawing."""
        import html  # lazy: the start does without it

        share = "" if total is None else f' value="{done}" max="{total}"'
        self._put(f"{html.escape(task)} <progress{share}></progress> {html.escape(text)}")

    def _put(self, text: str) -> None:
        from IPython import display  # type: ignore[import-not-found]  # lazy: IPython is an optional dependency

        if self._handle is None:
            self._handle = display.display(display.HTML(text), display_id=True)
        else:
            self._handle.update(display.HTML(text))

    def clear(self) -> None:
        """Remove the drawing."""
        if self._handle is not None:
            self._put("")
            self._handle = None


def _find_screen(*, always: bool) -> Screen | None:
    """Return the place for bars, if there is one."""
    ipython = sys.modules.get("IPython")
    if getattr(ipython and ipython.get_ipython(), "kernel", None) is not None:
        return Notebook()
    there = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Terminal() if there or always else None


class Bars:
    """Draws the progress of the innermost running task."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._screen: Screen | None = None
        self._tasks: list[_Task] = []

    def __call__(self, what: str, unit: str) -> "_Task":
        return _Task(self, what, unit)

    def begin(self, task: "_Task") -> None:
        """Begin a task, perhaps within another."""
        if not self._tasks:
            self._screen = _find_screen(always=self._always)
        elif task.next_draw > self._tasks[0].next_draw:
            task.next_draw = self._tasks[0].next_draw
        self._tasks.append(task)

    def draw(self, task: "_Task", done: int, total: int | None, note: str) -> None:
        """Draw a task's progress. Errors of the screen disable drawing only."""
        if self._screen is None:
            return
        text = f"{_format_amount(done, total, task.unit)}, {time.monotonic() - task.start:.0f} s"
        try:
            self._screen.draw(task.name, done, total, f"{text}, {note}" if note else text)
        except (OSError, ValueError):
            self._screen = None

    def end(self, task: "_Task") -> None:
        """End a task."""
        self._tasks.remove(task)
        if not self._tasks and self._screen is not None:
            screen, self._screen = self._screen, None
            with suppress(OSError, ValueError):
                screen.clear()


class _Task:
    """A task, which runs while its context is open."""

    def __init__(self, bars: Bars, what: str, unit: str) -> None:
        self.name = what
        self.unit = unit
        self._bars = bars
        self.start = time.monotonic()
        self.next_draw = self.start + DELAY

    def __enter__(self) -> ProgressCallback:
        self._bars.begin(self)
        return self._report

    def _report(self, done: int, total: int | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now >= self.next_draw:
            self.next_draw = now + REDRAW_INTERVAL
            self._bars.draw(self, done, total, note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.end(self)


def _format_amount(done: int, total: int | None, unit: str) -> str:
    """Return a text such as ``7 of 23 operators``, ``1,200 rows``, ``12 of 40 MB``."""
    if unit == "bytes":
        unit, done, total = "MB", done // 10**6, None if total is None else total // 10**6
    return f"{done:,}{'' if total is None else f' of {total:,}'} {unit}"
