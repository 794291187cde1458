"""How a coordinator asks its members, and what they tell of their work."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import OperationalError
from kpg.runtime.handles import ArrangementInfo, OperatorInfo, Work
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.sharing.memory import NO_NEWS
from kpg.runtime.sharing.strings import Told
from kpg.runtime.trace.updates import Updates
from kpg.runtime.workers.messages import (
    Command,
    Crew,
    MemberGoneError,
    Reply,
    UnsendableError,
    with_columns,
)

Words = NDArray[np.int64]

READS: Final = frozenset(
    {
        "rows",
        "matching",
        "rows_of",
        "held",
        "rank_width",
        "ranks_of",
        "ranked",
        "first_rounds",
        "overlay",
        "figures",
        "state",
        "operators_here",
        "arrangements_here",
        "work_here",
    }
)
"""What members that were started again answer as those before them."""


def _added(infos: Sequence[OperatorInfo]) -> OperatorInfo:
    """One operator at all members."""
    first = infos[0]
    return replace(
        first,
        updates_in=sum(one.updates_in for one in infos),
        updates_out=sum(one.updates_out for one in infos),
        rows=sum(one.rows for one in infos),
        bytes=sum(one.bytes for one in infos),
        seconds=max(one.seconds for one in infos),
        step_seconds=max(one.step_seconds for one in infos),
    )


def _all_of(infos: Sequence[ArrangementInfo]) -> ArrangementInfo:
    return replace(infos[0], rows=sum(one.rows for one in infos), bytes=sum(one.bytes for one in infos))


def _raise_first(replies: Sequence[Reply]) -> None:
    """Raise the error that comes first in the order of operators, if there is one."""
    failed = [(worker, reply) for worker, reply in enumerate(replies) if reply.error is not None]
    if not failed:
        return
    own = [one for one in failed if not one[1].aside] or failed
    worker, first = min(own, key=lambda one: one[1].order)
    assert first.error is not None
    if isinstance(first.error, MemoryError):
        raise OperationalError(
            f"out of memory: worker {worker}: {first.error}",
            hint="nothing was changed; have more workers, or give them more",
        )
    raise first.error


class Asking:
    """The part of a coordinator that speaks with its crew."""

    crew: Crew
    _told: Told
    _interrupt: DeferredInterrupt
    _ended: bool
    _gone: MemberGoneError | None = None
    """Why there are no members, until they are started again."""
    _patient = False
    """Whether Ctrl-C waits: what is asked belongs to a step that is final."""

    def _be_there(self) -> None:
        """Start new members if they are gone."""
        raise NotImplementedError

    def ask(self, method: str, *args: object) -> list[Any]:
        """What all members answer; of several errors the one that comes first in order of operators."""
        return [reply.value for reply in self.replies(method, *args)]

    def replies(self, method: str, *args: object) -> list[Reply]:
        """As :meth:`ask`, with the strings that came along taken up."""
        if self._ended:
            return []
        self._be_there()
        memory = self.crew.memory
        news = NO_NEWS if memory is None else memory.news()
        command = Command(method, args, self._told.news(), news.shown)
        try:
            replies, stopped = self.crew.call(command, self._look)
        except UnsendableError:
            self._told.untold(command.learn)
            if memory is not None:
                memory.unsaid(news)
            raise
        except MemberGoneError as gone:
            self._gone = gone
            if method not in READS:
                raise
            return self.replies(method, *args)
        if memory is not None:
            memory.heard(news)
        for worker, reply in enumerate(replies):
            self._told.hear(worker, reply.delta)
        if stopped is not None:
            raise stopped
        _raise_first(replies)
        return replies

    def _look(self) -> None:
        if not self._patient:
            self._interrupt.check()

    def tell(self, method: str, *args: object) -> None:
        """Have members do something that nobody waits for."""
        if self._gone is None and not self._ended:
            try:
                self.crew.tell(Command(method, args, self._told.news()))
            except MemberGoneError as gone:
                self._gone = gone

    def inform(self, method: str, *args: object) -> None:
        """Have members know what is so here; those that are started again do."""
        if self._gone is None:
            with suppress(MemberGoneError):
                self.ask(method, *args)

    def words(self, worker: int, words: Words, texts: tuple[int, ...]) -> Words:
        """Words of a member as those of the coordinator, in place."""
        for column in texts:
            words[column] = self._told.words(worker, words[column])
        return words

    def updates(self, worker: int, updates: Updates, texts: tuple[int, ...]) -> Updates:
        """Updates of a member in words of the coordinator."""
        columns = {place: self._told.words(worker, updates.data[place]) for place in texts}
        return with_columns(updates, columns) if columns else updates

    # Profiles

    def operators(self) -> list[OperatorInfo]:
        """Every operator, with the work of all members."""
        return [_added(infos) for infos in zip(*self.ask("operators_here"), strict=True)]

    def work(self) -> list[Work]:
        """What each member keeps and has done."""
        from kpg.runtime.workers.heavy import with_heavy

        works, found = zip(*self.ask("work_here"), strict=True)
        return with_heavy(works, found)

    def arrangements(self) -> list[ArrangementInfo]:
        """Every index, with the rows of all members."""
        return [_all_of(infos) for infos in zip(*self.ask("arrangements_here"), strict=True)]
