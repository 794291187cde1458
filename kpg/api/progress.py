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

from kpg.runtime.progress_report import Tell, look

PATIENCE: Final = 1.0
"""Seconds after which work is long: for less, a line that comes and goes would only flicker."""
EVERY: Final = 0.1
"""Seconds between two pictures: as many as one can follow."""
_said: Final = list[bool]()


def show_progress(shown: bool | None = None) -> None:
    """Whether bars are drawn: True, on standard error; False, never; None, where somebody looks."""
    _said.append(True)
    look(None if shown is False else Bars(always=shown is True))


def begin() -> None:
    """Have bars be drawn by default, if nothing has been said of that."""
    if not _said:
        show_progress()


class Screen(Protocol):
    """Where bars are drawn."""

    def draw(self, what: str, done: int, total: int | None, text: str) -> None:
        """Draw, in the place of what was drawn before."""

    def clear(self) -> None:
        """Have nothing stand there any more."""


class Terminal:
    """A line of a terminal, of standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def draw(self, what: str, done: int, total: int | None, text: str) -> None:
        """See :class:`Screen`."""
        if self._bar is None:
            self._begin()
        self._bar.update(self._task, total=total, completed=done, description=what, text=text, refresh=True)

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
        """See :class:`Screen`."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Notebook:
    """What stands below a cell of Jupyter."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, what: str, done: int, total: int | None, text: str) -> None:
        """See :class:`Screen`."""
        import html  # lazy: the start does without it

        share = "" if total is None else f' value="{done}" max="{total}"'
        self._put(f"{html.escape(what)} <progress{share}></progress> {html.escape(text)}")

    def _put(self, text: str) -> None:
        from IPython import display  # type: ignore[import-not-found]  # lazy: IPython is an optional dependency

        if self._handle is None:
            self._handle = display.display(display.HTML(text), display_id=True)
        else:
            self._handle.update(display.HTML(text))

    def clear(self) -> None:
        """See :class:`Screen`."""
        if self._handle is not None:
            self._put("")
            self._handle = None


def _screen(*, always: bool) -> Screen | None:
    """Where somebody looks, if anywhere."""
    ipython = sys.modules.get("IPython")
    if getattr(ipython and ipython.get_ipython(), "kernel", None) is not None:
        return Notebook()
    there = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Terminal() if there or always else None


class Bars:
    """What looks at all that is under way, and draws of it what was begun last."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._screen: Screen | None = None
        self._works: list[_Work] = []

    def __call__(self, what: str, unit: str) -> "_Work":
        return _Work(self, what, unit)

    def begin(self, work: "_Work") -> None:
        """Some work begins, perhaps as part of another."""
        if not self._works:
            self._screen = _screen(always=self._always)
        elif work.next > self._works[0].next:
            work.next = self._works[0].next
        self._works.append(work)

    def draw(self, work: "_Work", done: int, total: int | None, note: str) -> None:
        """Draw how far it has come. That a screen is gone is nothing that ends what is drawn."""
        if self._screen is None:
            return
        text = f"{_amount(done, total, work.unit)}, {time.monotonic() - work.begun:.0f} s"
        try:
            self._screen.draw(work.what, done, total, f"{text}, {note}" if note else text)
        except (OSError, ValueError):
            self._screen = None

    def end(self, work: "_Work") -> None:
        """It is over, whichever way."""
        self._works.remove(work)
        if not self._works and self._screen is not None:
            screen, self._screen = self._screen, None
            with suppress(OSError, ValueError):
                screen.clear()


class _Work:
    """Some work; within the context it is under way."""

    def __init__(self, bars: Bars, what: str, unit: str) -> None:
        self.what = what
        self.unit = unit
        self._bars = bars
        self.begun = time.monotonic()
        self.next = self.begun + PATIENCE

    def __enter__(self) -> Tell:
        self._bars.begin(self)
        return self._tell

    def _tell(self, done: int, total: int | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now >= self.next:
            self.next = now + EVERY
            self._bars.draw(self, done, total, note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.end(self)


def _amount(done: int, total: int | None, unit: str) -> str:
    """``7 of 23 operators``, ``1,200 rows``, ``12 of 40 MB``."""
    if unit == "bytes":
        unit, done, total = "MB", done // 10**6, None if total is None else total // 10**6
    return f"{done:,}{'' if total is None else f' of {total:,}'} {unit}"
