"""Goals: prepared queries of a program, one-time answers, and subscriptions to answers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.rules import core
from kpg.datalog.facts import check_names, distinct, python_value
from kpg.datalog.goal_dataflow import Seed
from kpg.datalog.goal_plan import QueryForm
from kpg.datalog.privileges import check_read
from kpg.execute.queries.result_rows import Reader
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InterfaceError
from kpg.runtime.monitor import Monitor, synchronized
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BOOLEAN, ColumnDef, Schema, Type
from kpg.session.engine import Engine
from kpg.session.notification_queue import Guarded, Handler, Notification
from kpg.session.subscriptions import Callback, Change

Words = NDArray[np.int64]
HOLDS = "holds"
"""The column of the answer to a goal without variables: a row with true, or no row."""


class GoalProgram(Protocol):
    """The program of a goal."""

    engine: Engine

    @property
    def dictionary(self) -> Dictionary:
        """The database's strings."""

    def check(self) -> None:
        """Raise InterfaceError if the program was dropped, or its database closed."""

    def release(self, form: QueryForm) -> None:
        """Forget one user of a form, and drop a form that has none."""


@synchronized()
class Goal:
    """A prepared goal. Goals that ask the same way share one dataflow, whoever made them.

    Calling it, with values for the goal's parameters, gives the answer.
    """

    def __init__(self, program: GoalProgram, text: core.Program, goal: core.Goal, form: QueryForm) -> None:
        """Of a ``text`` that was checked after the program."""
        self._monitor = program.engine.monitor
        self._program = program
        self._text = text
        self._goal = goal
        self._form: QueryForm | None = form
        self._answers: list[Answers] = []
        self.when_dropped: Callable[[], None] | None = None
        """Called once the goal is dropped."""
        self._reading = Reading(goal, form, program.dictionary)
        form.users += 1

    def __repr__(self) -> str:
        span = self._goal.span
        return f"<Goal {span.source[span.start : span.end]}>"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(one.name for one in self._goal.parameters)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of an answer: the goal's variables."""
        return self._reading.reader.names

    @property
    def types(self) -> tuple[Type, ...]:
        """Their types."""
        return self._reading.reader.visible_types

    @property
    def label(self) -> str | None:
        """Its name among dataflows, which goals of the same form share; None once it is dropped."""
        return None if self._form is None else self._form.name

    def __call__(self, **values: Any) -> Result:
        """The answer now. In a transaction, with its changes, computed for this call.

        A goal without variables gives one row if it holds and none if not.
        """
        form = self._open()
        seed, given = self._reading.seed(values)
        transactions = self._program.engine.transactions
        transactions.check()
        if not transactions.idle:
            return self._reading.result(*form.rows_now(seed), given)
        return self._reading.result(*form.answer(seed), given)

    def subscribe(
        self, callback: Callback | None = None, on_error: Handler | None = None, /, **values: Any
    ) -> "Answers":
        """Keep the answer up to date, and call ``callback`` with the changes of each later commit.

        ``on_error`` gets the exceptions of the callback: see :meth:`kpg.View.subscribe`.
        """
        answers = Answers(self, self._open(), self._reading, values, callback, on_error)
        self._answers.append(answers)
        return answers

    def explain(self) -> str:
        """How the goal is answered and why so, the rules it is answered by, and how much is demanded now."""
        return self._open().explain()

    def drop(self) -> None:
        """Give the goal up and with it its subscriptions; the dataflow goes with its last goal.

        Dropping twice is allowed.
        """
        form, self._form = self._form, None
        if form is not None:
            self.admit_owner()
            for answers in list(self._answers):
                answers.close()
            self._program.release(form)
            if self.when_dropped is not None:
                self.when_dropped()

    def __enter__(self) -> "Goal":
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    @property
    def epoch(self) -> int:
        """The last epoch that answers have."""
        return self._program.engine.executor.epoch

    @property
    def monitor(self) -> Monitor:
        """That of its database."""
        return self._monitor

    def admit_owner(self) -> None:
        """See :class:`kpg.session.engine.Sessions`."""
        self._program.engine.admit_owner()

    def forget(self, answers: "Answers") -> None:
        """A subscription was closed."""
        if answers in self._answers:
            self._answers.remove(answers)

    def check(self) -> None:
        """Raise PrivilegeError unless the role may read what the goal asks for."""
        check_read(self._program.engine.catalog, self._text, self._goal.relation)

    def _open(self) -> QueryForm:
        self._program.check()
        if self._form is None or self._form.closed:
            raise InterfaceError("the goal was dropped", hint="prepare it again")
        self.check()
        return self._form


class Reading:
    """How a goal's answer is read off the answers of its form."""

    def __init__(self, goal: core.Goal, form: QueryForm, dictionary: Dictionary) -> None:
        self._goal = goal
        self._bound = form.bound
        self._dictionary = dictionary
        self._given = [
            place for place, term in enumerate(goal.terms) if isinstance(term, core.Constant | core.Parameter)
        ]
        columns = (ColumnDef(str(place), goal.terms[place].type, False) for place in self._given)
        self._schema = Schema(tuple(columns))
        places: dict[str, list[int]] = {}
        for place, term in enumerate(goal.terms):
            if isinstance(term, core.Variable):
                places.setdefault(term.name, []).append(place)
        self._equal = [group for group in places.values() if len(group) > 1]
        self._places = [places[one.name][0] for one in goal.variables]
        names = tuple(one.name for one in goal.variables) or (HOLDS,)
        types = tuple(one.type for one in goal.variables) or (BOOLEAN,)
        self.reader = Reader(names, types, (), dictionary)

    def seed(self, values: dict[str, Any]) -> tuple[Seed, Seed]:
        """The row to ask with, and all that is given: InterfaceError for missing or unknown parameters."""
        check_names((one.name for one in self._goal.parameters), values)
        row: list[Any] = []
        for place in self._given:
            term = self._goal.terms[place]
            if isinstance(term, core.Parameter):
                row.append(values[term.name])
            elif isinstance(term, core.Constant):
                row.append(python_value(term.value, term.type, self._dictionary))
        given: Seed = ()
        if row:
            given = tuple(from_rows([tuple(row)], self._schema, self._dictionary)[:, 0].tolist())
        pairs = zip(self._given, given, strict=True)
        return tuple(word for place, word in pairs if self._bound[place]), given

    def chosen(self, data: Words, given: Seed) -> tuple[Words, NDArray[np.bool_]]:
        """The rows of the answer with repetitions, and which of the given ones they are."""
        keep = np.ones(data.shape[1], np.bool_)
        for place, word in zip(self._given, given, strict=True):
            keep &= data[place] == word
        for first, *others in self._equal:
            for other in others:
                keep &= data[first] == data[other]
        rows = data[self._places][:, keep] if self._places else np.ones((1, int(keep.sum())), np.int64)
        return np.ascontiguousarray(rows), keep

    def rows(self, data: Words, diff: Words, given: Seed) -> Words:
        """The answer, each row once."""
        return distinct(self.chosen(np.ascontiguousarray(data[:, diff > 0]), given)[0])

    def result(self, data: Words, diff: Words, given: Seed) -> Result:
        """The answer in Python's terms."""
        rows = self.rows(data, diff, given)
        return self.reader.result(rows, np.ones(1, np.int64))


@synchronized("notifications", "moved")
class Answers:
    """The answer to one goal, kept up to date until it is closed. Read is the state after the last commit."""

    def __init__(
        self,
        goal: Goal,
        form: QueryForm,
        reading: Reading,
        values: dict[str, Any],
        callback: Callback | None,
        on_error: Handler | None,
    ) -> None:
        self._monitor = goal.monitor
        self._goal = goal
        self._form: QueryForm | None = form
        self._reading = reading
        self._tell: Guarded | None = None
        if callback is not None:
            self._tell = Guarded(f"a subscriber of {goal!r}", callback, self._stop, on_error)
        self._seed, self._given = reading.seed(values)
        form.ask(self._seed)
        self._mailbox = form.feed.mailbox()
        self._counts: Counter[tuple[int, ...]] = Counter()
        data, diff = form.answer(self._seed)
        self._waiting = self._net([Updates.of(data, (goal.epoch,), diff)])
        form.listeners.append(self)

    def result(self) -> Result:
        """The present answer, which later commits do not change."""
        return self._reading.result(*self._open().answer(self._seed), self._given)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.result())

    def __len__(self) -> int:
        return len(self.result())

    def changes(self) -> Iterator[Change]:
        """What changed since the last call, as (row, epoch, +1 or -1); first, the answer as it was."""
        self._open()
        found, self._waiting = self._waiting, []
        return iter(found)

    def notifications(self) -> Iterator[Notification]:
        """Take the last commit's changes; the callback is to be told of them."""
        updates, self._mailbox.waiting = self._mailbox.waiting, []
        changes = self._net(updates)
        self._waiting += changes
        if changes and self._tell is not None:
            yield partial(self._tell, changes)

    def _stop(self) -> None:
        """Call the callback no more."""
        self._tell = None

    def moved(self) -> None:
        """Take changes from the form's new feed, which begin where the last one's ended."""
        self._mailbox = self._open().feed.mailbox()

    def close(self) -> None:
        """Follow the answer no more; it is given up unless somebody else asks for it."""
        form, self._form = self._form, None
        if form is not None:
            self._goal.admit_owner()
            form.listeners.remove(self)
            self._goal.forget(self)
            form.leave(self._seed)

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> QueryForm:
        if self._form is None or self._form.closed:
            raise InterfaceError("the subscription was closed", hint="subscribe again")
        self._goal.admit_owner()
        return self._form

    def _net(self, parts: Sequence[Updates]) -> list[Change]:
        """The changes of the answer as a set: several rows of the relation may be one of it."""
        if not parts:
            return []
        updates = Updates.concat(parts)
        rows, keep = self._reading.chosen(updates.data, self._given)
        times, diffs = updates.times()[0][keep], updates.diffs()[keep]
        found: list[Updates] = []
        for time in np.unique(times).tolist():
            at = times == time
            found += self._flipped(rows[:, at], diffs[at].tolist(), time)
        return self._reading.reader.changes(found)

    def _flipped(self, rows: Words, diffs: list[int], time: int) -> list[Updates]:
        """The rows that an epoch brings into the answer, or takes out of it."""
        before: dict[tuple[int, ...], bool] = {}
        for row, diff in zip(map(tuple, rows.T.tolist()), diffs, strict=True):
            before.setdefault(row, self._counts[row] > 0)
            self._counts[row] += diff
        made = []
        for row, was in before.items():
            now = self._counts[row] > 0
            if now != was:
                made.append((row, 1 if now else -1))
            if not now:
                del self._counts[row]
        if not made:
            return []
        words = np.array([row for row, _ in made], np.int64).T
        return [Updates.of(words, (time,), [diff for _, diff in made])]
