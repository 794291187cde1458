"""One way of asking a program, shared by all who ask that way: whose answers are maintained, and whose not.

A question that nobody subscribes to is answered by a step that is undone, so that it costs nobody anything
later; if it is asked again after a change its answer is maintained for a while. Where that pays, everybody's
answers are looked up in the relation as a whole, from then on.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules.magic import Policy, Strategy
from kpg.datalog.acyclic import Acyclic
from kpg.datalog.answer_cache import AnswerCache, Kept, Remembered
from kpg.datalog.answering import Answering, Question, Seed
from kpg.datalog.guard import LEAST, SHARE, Guard
from kpg.datalog.permitted import shows_text
from kpg.datalog.placing import place, placed
from kpg.engine.engine import Engine
from kpg.engine.table import Table
from kpg.listeners.feed import Feed
from kpg.listeners.notifications import Notification
from kpg.runtime.errors import DatabaseError, DataError

Words = NDArray[np.int64]
Rows = tuple[Words, Words]
MOST_KEPT: Final = 8
"""Seeds that are maintained though nobody subscribes to their answers."""
MOST_HELD: Final = 1 << 20
"""Rows of state from which on none is."""
MOST_RESERVED: Final = 1 << 28
"""Bytes that questions may leave reserved for the next ones."""
TRIMMED: Final = 16
"""Questions after which that is looked at."""
PATIENCE: Final = 32
"""Commits after which one that was not asked for again is given up."""
SAMPLES: Final = frozenset(8 * 4**n for n in range(15))
"""Of so many questions the last is asked once more, to see what it demands. That costs as much as the
answer, and all answers, if they are computed then, as much as several: so not before several were asked.
"""


class Listener(Protocol):
    """Somebody who follows the answers to a seed."""

    def notifications(self) -> Iterator[Notification]:
        """Whom to tell of a commit, once the feed's mailboxes have it."""

    def moved(self) -> None:
        """Take changes from the form's new feed from now on."""


class QueryForm:
    """The answers to a question for every seed, and the seeds that are maintained: those with demand."""

    def __init__(self, engine: Engine, name: str, question: Question, kept: frozenset[str]) -> None:
        self._engine = engine
        self.name = name
        self._question = question
        self.users = 0
        self.closed = False
        self.listeners: list[Listener] = []
        self._demands: Counter[Seed] = Counter()
        self._kept = Kept(MOST_KEPT, PATIENCE)
        self._cache = AnswerCache()
        self._asked = 0
        """Questions that were answered by a step that was undone."""
        self._is_settled = False
        """Whether another strategy was tried, or there is none to try."""
        self._moves = 0
        self._answering = Answering(engine, name, question, self._policy(kept))
        self._feed: Feed | None = None
        engine.dataflows[name] = self
        self._note_uses()
        if engine.transactions.idle:
            self.install()

    def _tables(self) -> dict[str, Table]:
        found = ((name, self._engine.find_table(name)) for name in self._question.tables)
        return {name: table for name, table in found if table is not None}

    def _note_uses(self) -> None:
        """What is read must not be dropped, and with CASCADE the form goes too."""
        self._engine.note_uses(self.name, self._answering.views | frozenset(self._tables()))

    def _policy(self, kept: frozenset[str], whole: str = "") -> Policy:
        tables = self._tables()
        rows = {name: table.rows for name, table in tables.items()}
        return Policy(kept=kept, rows=rows, acyclic=Acyclic(tables), whole=whole)

    def install(self) -> None:
        """Make the dataflow now rather than with the first question."""
        try:
            with placed(self._question.program):
                self._answering.install()
        except BaseException:
            self.drop()
            raise

    @property
    def bound(self) -> tuple[bool, ...]:
        """The columns that a seed has values for."""
        return self._answering.prepared.bound

    @property
    def feed(self) -> Feed:
        """What changes in the answers that are maintained."""
        if self._feed is None:
            reader = self._answering.plan.reader(self._engine.executor.dictionary)
            self._feed = Feed(self._engine.monitor, self._engine.executor, self._answering.install(), reader)
        return self._feed

    # Who asks

    def ask(self, seed: Seed) -> None:
        """Have the answers for a seed maintained until :meth:`leave`; asked twice, it is left twice."""
        self._engine.refuse_in_transaction("following a goal")
        self._maintain(seed)
        self._demands[seed] += 1
        self._guard_followed()

    def leave(self, seed: Seed) -> None:
        """Ask no more. Answers that nobody asks for are given up, in a transaction with a later change."""
        self._demands[seed] -= 1
        if self._demands[seed] <= 0:
            del self._demands[seed]
            self._kept.ask(seed)
            if self._engine.transactions.idle:
                self._change([], [seed])

    def _maintain(self, seed: Seed) -> None:
        """Have a seed in the table."""
        if self._answering.has_seeds and not self._is_maintained(seed):
            self._change([seed], self._surplus())
        self._kept.forget(seed)
        self._cache.forget(seed)

    def _is_maintained(self, seed: Seed) -> bool:
        return seed in self._kept or self._demands[seed] > 0

    def _change(self, coming: list[Seed], going: list[Seed]) -> None:
        """Seeds come and go in one commit, which may stand though a subscriber raises."""
        for seed in going:
            self._kept.forget(seed)
        try:
            if self._answering.has_seeds:
                self._answering.change(coming, going)
        except BaseException:
            for seed in (*coming, *going):
                if self._answering.has(seed) and not self._is_maintained(seed):
                    self._kept.ask(seed)
            raise

    def _surplus(self) -> list[Seed]:
        """The kept seeds that are kept no longer."""
        if len(self._kept) and self._answering.held > MOST_HELD:
            return list(self._kept)
        return self._kept.surplus()

    # What is answered

    def answer(self, seed: Seed) -> Rows:
        """The answers to a seed, which nobody need have asked for; between transactions only."""
        with placed(self._question.program):
            return self._answered(seed)

    def _answered(self, seed: Seed) -> Rows:
        if not self._answering.has_seeds:
            return self._answering.rows()
        if self._demands[seed]:
            return self._answering.find(seed)
        epoch, last = self._engine.executor.epoch, self._cache.find(seed)
        if seed not in self._kept:
            if last is None:
                return self._previewed(seed)
            if last.epoch == epoch:
                return last.rows
            self._maintain(seed)
        self._kept.ask(seed)
        return self._answering.find(seed)

    def _previewed(self, seed: Seed) -> Rows:
        found = self._answering.preview(seed)
        self._cache.put(seed, Remembered(self._engine.executor.epoch, found))
        self._asked += 1
        self._guard_asked(seed)
        if self._asked % TRIMMED == 0:
            self._trim()
        return found

    def _trim(self) -> None:
        """Give back the memory that large questions have left reserved, if nobody needs the state."""
        if not self._demands and not len(self._kept) and self._answering.reserved > MOST_RESERVED:
            self._answering.uninstall()
            self._feed = None

    def rows_now(self, seed: Seed) -> Rows:
        """The answers to a seed inside a transaction, its changes included; computed for this call."""
        return self._answering.rows_now(seed)

    def explain(self) -> str:
        """The strategy, the program it led to, how much is demanded now, and how much would be too much."""
        prepared = self._answering.prepared
        lines = [prepared.explanation.text().rstrip("\n")]
        if prepared.demands:
            lines += ["demand now:", *(f"  {name}: {self._size(name)} rows" for name in prepared.demands)]
        for name, relation, bound in () if self._is_settled else self._watched():
            most = self._guard.limit(relation, bound)
            if most is not None:
                lines.append(f"as a whole from {most} rows of {name} on")
        return "\n".join(lines)

    def _size(self, relation: str) -> str:
        try:
            return str(self._answering.size(relation))
        except DatabaseError as error:
            return error.message

    # Another strategy

    @property
    def _guard(self) -> Guard:
        return Guard(self._question.program, self._tables())

    def _watched(self) -> list[tuple[str, str, tuple[bool, ...]]]:
        """The demand that must not grow too large: of the question itself, and what spreads from it."""
        prepared = self._answering.prepared
        if not prepared.demands:
            return []
        if self._spreads:
            return list(prepared.spreading)
        return [(prepared.demands[0], self._question.relation, prepared.bound)]

    @property
    def _spreads(self) -> bool:
        """Whether what a single question demands may grow too large."""
        prepared = self._answering.prepared
        return bool(prepared.spreading) and prepared.strategy is Strategy.MAGIC

    def _guard_asked(self, seed: Seed) -> None:
        """Now and then, see how much a question that nobody follows demands; it was asked already."""
        if self._spreads and not self._is_settled and self._asked in SAMPLES:
            self._consider(lambda name: self._answering.added(name, seed))

    def _guard_followed(self) -> None:
        """Each time that the number of seeds has doubled, see how much they demand."""
        count = len(self._demands)
        doubled = count & (count - 1) == 0 and (self._spreads or count >= SHARE * LEAST)
        if doubled and not self._is_settled:
            self._consider(self._answering.size)

    def _consider(self, size: Callable[[str], int]) -> None:
        guard = self._guard
        for name, relation, bound in self._watched():
            most = guard.limit(relation, bound)
            if most is not None and (found := size(name)) >= most:
                self._move(self._policy(self._answering.kept, f"{found} rows of {name}, at least {most}"))
                self._is_settled = True
                return

    def look_up(self, kept: frozenset[str]) -> None:
        """Answer from the relation itself if that is maintained by now."""
        if self._question.relation in kept and self._question.relation not in self._answering.kept:
            self._move(self._policy(kept))

    def _move(self, policy: Policy) -> None:
        """Have another strategy answer, unless it is the same or fails; those who follow do not notice."""
        self._moves += 1
        new = Answering(self._engine, f"{self.name}/{self._moves}", self._question, policy)
        seeds = list(dict.fromkeys((*self._demands, *self._kept)))
        try:
            if new.prepared.strategy is self._answering.prepared.strategy:
                new.drop()
                return
            new.install()
            if seeds and new.has_seeds:
                new.change(seeds, [])
        except DatabaseError:
            new.drop()
            return
        except BaseException:
            new.drop()
            raise
        old, self._answering, self._feed = self._answering, new, None
        self._note_uses()
        for listener in self.listeners:
            listener.moved()
        old.drop()

    # As a part of the engine

    def notifications(self) -> Iterator[Notification]:
        """Whom to tell of a commit; and what nobody has asked for in a while is given up."""
        if self._feed is not None and self._feed.is_heard():
            for _ in self._feed.distribute():
                pass
        for listener in list(self.listeners):
            yield from listener.notifications()
        self._kept.committed()
        if len(self._kept) and self._surplus():
            yield self._tidy

    def retire(self) -> None:
        """Tables can always change."""

    def prover(self, name: str) -> None:
        """Its views are those of goals."""

    def place(self, error: DataError) -> None:
        """An operation of the rules that failed is in their program's text."""
        if shows_text(self._engine.catalog, self._question.program):
            place(error, self._question.program)

    def _tidy(self) -> None:
        if not self.closed and self._engine.transactions.idle:
            self._change([], self._surplus())

    def pull(self) -> None:
        """A goal has no inputs of its own clock."""

    def drop(self) -> None:
        """Give the dataflow and the seeds up. Twice is allowed."""
        if not self.closed:
            self.closed = True
            self._engine.forget_dataflow(self.name)
            self._answering.drop()
