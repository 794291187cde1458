"""Query form: a relation with bound columns, shared by all goals of that form, and its evaluation strategy.

An answer with subscribers is maintained. An answer without subscribers is computed by a step that is rolled
back; it is maintained for a while if it is asked for again after a change. ``AnswerCache`` holds recent
answers, bounded in number and in rows.

Answers are computed by magic sets. When a large share of the possible seeds has been asked for, the form
switches to looking answers up in the whole relation. ``Acyclic`` tells whether the edges between two columns
of a table are free of cycles at present.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.magic import Policy, Strategy, is_finite, origins
from kpg.datalog.goal_dataflow import Answering, Question, Seed
from kpg.datalog.privileges import shows_text
from kpg.datalog.program_plans import place, placed
from kpg.runtime.errors import DatabaseError, DataError, InterfaceError
from kpg.runtime.records import dataclass
from kpg.session.base_table import Table
from kpg.session.engine import Engine
from kpg.session.notification_queue import Notification
from kpg.session.subscriptions import Feed

Words = NDArray[np.int64]


Rows = tuple[Words, Words]
MOST: Final = 64
"""Questions whose answers are remembered."""
MOST_ROWS: Final = 1 << 18
"""Rows of all of them together."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer as it was at an epoch."""

    epoch: int
    rows: Rows

    @property
    def size(self) -> int:
        return self.rows[0].shape[1]


class AnswerCache:
    """The answers to the questions asked last, the oldest first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Seed, Remembered] = OrderedDict()
        self._rows = 0

    def find(self, seed: Seed) -> Remembered | None:
        """The last answer to a question, however old."""
        return self._answers.get(seed)

    def put(self, seed: Seed, found: Remembered) -> None:
        """Remember an answer, and forget others for it; one that is too large is not remembered."""
        self.forget(seed)
        if found.size > MOST_ROWS:
            return
        self._answers[seed] = found
        self._rows += found.size
        while len(self._answers) > MOST or self._rows > MOST_ROWS:
            self.forget(next(iter(self._answers)))

    def forget(self, seed: Seed) -> None:
        """Forget an answer, if it is there."""
        found = self._answers.pop(seed, None)
        if found is not None:
            self._rows -= found.size


class Kept:
    """Seeds that are maintained because they were asked for again after a change; the least recent first."""

    def __init__(self, most: int, patience: int) -> None:
        self._most = most
        self._patience = patience
        self._asked: OrderedDict[Seed, int] = OrderedDict()
        self._commits = 0

    def __contains__(self, seed: object) -> bool:
        return seed in self._asked

    def __iter__(self) -> Iterator[Seed]:
        return iter(tuple(self._asked))

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, seed: Seed) -> None:
        """Keep a seed that is asked for now."""
        self._asked[seed] = self._commits
        self._asked.move_to_end(seed)

    def expire(self, seed: Seed) -> None:
        """Keep a seed until the next commit, which finds it among the surplus."""
        self._asked[seed] = self._commits - self._patience - 1
        self._asked.move_to_end(seed, last=False)

    def forget(self, seed: Seed) -> None:
        """Keep it no more."""
        self._asked.pop(seed, None)

    def committed(self) -> None:
        """Note that there was a commit."""
        self._commits += 1

    def surplus(self) -> list[Seed]:
        """Those that are too many or were not asked for in a number of commits."""
        many = len(self._asked) - self._most
        old = self._commits - self._patience
        return [seed for place, (seed, at) in enumerate(self._asked.items()) if place < many or at < old]


SHARE: Final = 0.5
"""The share of the values that could be asked for from which on all answers are computed."""
LEAST: Final = 64
"""With fewer values to ask for, asking is cheap in any case."""


class Guard:
    """What could be asked of a program's relations, by its tables as they are."""

    def __init__(self, program: core.Program, tables: Mapping[str, Table]) -> None:
        self._program = program
        self._tables = tables
        self._is_finite = is_finite(program)

    def limit(self, relation: str, bound: Sequence[bool]) -> int | None:
        """So many values for the bound columns are too many to be asked for one by one.

        None if that is not known: the program makes values of its own, or reads what is no table.
        """
        if not self._is_finite or self._program.relations[relation].demanded:
            return None
        possible = 1
        for column in (column for column, is_bound in enumerate(bound) if is_bound):
            count = self._values(relation, column)
            if count is None:
                return None
            possible *= count
        return int(SHARE * possible) if possible >= LEAST else None

    def _values(self, relation: str, place: int) -> int | None:
        """At most so many values are in a column."""
        found = origins(self._program, relation, place)
        if found is None or any(name not in self._tables for name, _ in found):
            return None
        parts = [self._tables[name].scan((column,))[0] for name, column in found]
        return int(np.unique(np.concatenate(parts)).shape[0]) if parts else 0


MOST_ROUNDS: Final = 1024
"""Longer chains count as cycles: counting by levels would not go that far."""


class Acyclic:
    """The pairs of single columns (table, from, to) without cycles, found out when one is looked for."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def __contains__(self, pair: object) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 3:
            return False
        name, start, end = pair
        table = self._tables.get(name)
        if table is None or len(start) != 1 or len(end) != 1:
            return False
        return is_acyclic(*table.scan((start[0], end[0])))


def is_acyclic(start: Words, end: Words, most: int = MOST_ROUNDS) -> bool:
    """Whether the edges ``start[i] -> end[i]`` have no cycle, nor a path of more than ``most`` edges.

    Takes away nodes that no edge leads to until none is left: O(n log n), and ``most`` rounds.
    """
    nodes, places = np.unique(np.concatenate((start, end)), return_inverse=True)
    source, target = places[: start.shape[0]], places[start.shape[0] :]
    order = np.argsort(source, kind="stable")
    target = target[order]
    first = np.searchsorted(source[order], np.arange(nodes.shape[0] + 1))
    incoming = np.bincount(target, minlength=nodes.shape[0])
    free = np.flatnonzero(incoming == 0)
    left = nodes.shape[0]
    for _ in range(most + 1):
        left -= free.shape[0]
        counts = first[free + 1] - first[free]
        total = int(counts.sum())
        if not left or not total:
            break
        offsets = np.repeat(first[free] - np.cumsum(counts) + counts, counts)
        reached, times = np.unique(target[offsets + np.arange(total)], return_counts=True)
        incoming[reached] -= times
        free = reached[incoming[reached] == 0]
    return left == 0


GoalRows = tuple[Words, Words]
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
                self._release([seed])

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
            for seeds, keep in ((coming, self._kept.ask), (going, self._kept.expire)):
                for seed in seeds:
                    if self._answering.has(seed) and not self._is_maintained(seed):
                        keep(seed)
            raise

    def _release(self, going: list[Seed]) -> None:
        """Give seeds up in a commit, or leave them to a later one.

        The open epoch cannot be committed while an input of a collection holds updates at it.
        """
        with suppress(InterfaceError):
            self._change([], going)

    def _surplus(self) -> list[Seed]:
        """The kept seeds that are kept no longer."""
        if len(self._kept) and self._answering.held > MOST_HELD:
            return list(self._kept)
        return self._kept.surplus()

    # What is answered

    def answer(self, seed: Seed) -> GoalRows:
        """The answers to a seed, which nobody need have asked for; between transactions only."""
        with placed(self._question.program):
            return self._answered(seed)

    def _answered(self, seed: Seed) -> GoalRows:
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

    def _previewed(self, seed: Seed) -> GoalRows:
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

    def rows_now(self, seed: Seed) -> GoalRows:
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
            self._release(self._surplus())

    def pull(self) -> None:
        """A goal has no inputs of its own clock."""

    def drop(self) -> None:
        """Give the dataflow and the seeds up. Twice is allowed."""
        if not self.closed:
            self.closed = True
            self._engine.forget_dataflow(self.name)
            self._answering.drop()
