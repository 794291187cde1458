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
from kpg.session.notification_queue import GuardedCallback, Handler, Notification
from kpg.session.subscriptions import Callback, Change

Words = NDArray[np.int64]
HOLDS = "holds"
"""The column of the answer to a goal without variables: one row with true, or no row."""


class GoalOwner(Protocol):
    """The program that a goal belongs to."""

    engine: Engine

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of the database."""

    def check(self) -> None:
        """Raise InterfaceError if the program was dropped or its database closed."""

    def release(self, form: QueryForm) -> None:
        """Remove one user of a query form, and drop the form if it has no other."""


@synchronized()
class Goal:
    """A prepared goal. Goals of the same form share one dataflow.

    Call it with the values of its parameters to get the answer.
    """

    def __init__(self, program: GoalOwner, text: core.Program, goal: core.Goal, form: QueryForm) -> None:
        """Create a goal of ``text``, a text that was checked against the program."""
        self._monitor = program.engine.monitor
        self._program = program
        self._text = text
        self._goal = goal
        self._form: QueryForm | None = form
        self._answers: list[Answers] = []
        self.on_drop: Callable[[], None] | None = None
        """Called after the goal is dropped."""
        self._reading = AnswerReader(goal, form, program.dictionary)
        form.users += 1

    def __repr__(self) -> str:
        span = self._goal.span
        return f"<Goal {span.source[span.start : span.end]}>"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(parameter.name for parameter in self._goal.parameters)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of an answer: the goal's variables."""
        return self._reading.reader.names

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the columns."""
        return self._reading.reader.visible_types

    @property
    def label(self) -> str | None:
        """The name of the goal's dataflow, shared by goals of the same form; None after it is dropped."""
        return None if self._form is None else self._form.name

    def __call__(self, **values: Any) -> Result:
        """Return the current answer. Inside a transaction, it includes the uncommitted changes.

        A goal without variables has one row if it holds, and none if it does not.
        """
        form = self._check_form()
        seed, constants = self._reading.seed(values)
        transactions = self._program.engine.transactions
        transactions.check_not_failed()
        if not transactions.is_idle:
            return self._reading.result(*form.compute_answer(seed), constants)
        return self._reading.result(*form.answer(seed), constants)

    def subscribe(
        self, callback: Callback | None = None, on_error: Handler | None = None, /, **values: Any
    ) -> "Answers":
        """Keep the answer up to date, and call ``callback`` with the changes of each later commit.

        ``on_error`` receives exceptions of the callback: see :meth:`kpg.View.subscribe`.
        """
        answers = Answers(self, self._check_form(), self._reading, values, callback, on_error)
        self._answers.append(answers)
        return answers

    def explain(self) -> str:
        """Return the evaluation strategy with its reason, the rewritten rules, and the present demand."""
        return self._check_form().explain()

    def drop(self) -> None:
        """Drop the goal and its subscriptions. The last goal of a form drops the dataflow.

        Dropping a goal twice is allowed.
        """
        form, self._form = self._form, None
        if form is not None:
            self.admit_owner()
            for answers in list(self._answers):
                answers.close()
            self._program.release(form)
            if self.on_drop is not None:
                self.on_drop()

    def __enter__(self) -> "Goal":
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    @property
    def epoch(self) -> int:
        """The latest epoch that answers include."""
        return self._program.engine.executor.epoch

    @property
    def monitor(self) -> Monitor:
        """The monitor of the database."""
        return self._monitor

    def admit_owner(self) -> None:
        """Enter the database's own transaction and settings: see :class:`kpg.session.engine.Sessions`."""
        self._program.engine.swap_in_default()

    def forget(self, answers: "Answers") -> None:
        """Remove a closed subscription."""
        if answers in self._answers:
            self._answers.remove(answers)

    def check(self) -> None:
        """Raise PrivilegeError unless the current role may read the goal's relation."""
        check_read(self._program.engine.catalog, self._text, self._goal.relation)

    def _check_form(self) -> QueryForm:
        self._program.check()
        if self._form is None or self._form.closed:
            raise InterfaceError("the goal was dropped", hint="prepare it again")
        self.check()
        return self._form


class AnswerReader:
    """Reads a goal's answer from the answers of its query form.

    It selects the rows with the goal's constants and equal variables, and projects them to the
    variables.
    """

    def __init__(self, goal: core.Goal, form: QueryForm, dictionary: Dictionary) -> None:
        self._goal = goal
        self._bound = form.bound
        self._dictionary = dictionary
        self._constant_positions = [
            place for place, term in enumerate(goal.terms) if isinstance(term, core.Constant | core.Parameter)
        ]
        columns = (ColumnDef(str(place), goal.terms[place].type, False) for place in self._constant_positions)
        self._schema = Schema(tuple(columns))
        positions_by_name: dict[str, list[int]] = {}
        for position, term in enumerate(goal.terms):
            if isinstance(term, core.Variable):
                positions_by_name.setdefault(term.name, []).append(position)
        self._equal_positions = [group for group in positions_by_name.values() if len(group) > 1]
        self._variable_positions = [positions_by_name[variable.name][0] for variable in goal.variables]
        names = tuple(variable.name for variable in goal.variables) or (HOLDS,)
        types = tuple(variable.type for variable in goal.variables) or (BOOLEAN,)
        self.reader = Reader(names, types, (), dictionary)

    def seed(self, values: dict[str, Any]) -> tuple[Seed, Seed]:
        """Return the seed, and the words of all constants and parameters.

        The seed has the words of the form's bound columns. Raises InterfaceError for a missing or unknown
        parameter.
        """
        check_names((parameter.name for parameter in self._goal.parameters), values)
        row: list[Any] = []
        for position in self._constant_positions:
            term = self._goal.terms[position]
            if isinstance(term, core.Parameter):
                row.append(values[term.name])
            elif isinstance(term, core.Constant):
                row.append(python_value(term.value, term.type, self._dictionary))
        constants: Seed = ()
        if row:
            constants = tuple(from_rows([tuple(row)], self._schema, self._dictionary)[:, 0].tolist())
        pairs = zip(self._constant_positions, constants, strict=True)
        return tuple(word for place, word in pairs if self._bound[place]), constants

    def select(self, data: Words, constants: Seed) -> tuple[Words, NDArray[np.bool_]]:
        """Return the answer's rows with repetitions, and the mask of the rows of ``data`` that they come
        from.
        """
        keep = np.ones(data.shape[1], np.bool_)
        for position, word in zip(self._constant_positions, constants, strict=True):
            keep &= data[position] == word
        for first, *others in self._equal_positions:
            for other in others:
                keep &= data[first] == data[other]
        rows = (
            data[self._variable_positions][:, keep]
            if self._variable_positions
            else np.ones((1, int(keep.sum())), np.int64)
        )
        return np.ascontiguousarray(rows), keep

    def rows(self, data: Words, diff: Words, constants: Seed) -> Words:
        """Return the distinct rows of the answer, as words."""
        return distinct(self.select(np.ascontiguousarray(data[:, diff > 0]), constants)[0])

    def result(self, data: Words, diff: Words, constants: Seed) -> Result:
        """Return the answer as a result."""
        rows = self.rows(data, diff, constants)
        return self.reader.result(rows, np.ones(1, np.int64))


@synchronized("notifications", "follow_new_feed")
class Answers:
    """The answer to one goal, maintained until it is closed. It shows the state after the last commit."""

    def __init__(
        self,
        goal: Goal,
        form: QueryForm,
        reader: AnswerReader,
        values: dict[str, Any],
        callback: Callback | None,
        on_error: Handler | None,
    ) -> None:
        self._monitor = goal.monitor
        self._goal = goal
        self._form: QueryForm | None = form
        self._reader = reader
        self._callback: GuardedCallback | None = None
        if callback is not None:
            self._callback = GuardedCallback(
                f"a subscriber of {goal!r}", callback, self._remove_callback, on_error
            )
        self._seed, self._constants = reader.seed(values)
        form.add_subscription(self._seed)
        self._mailbox = form.feed.open_queue()
        self._counts: Counter[tuple[int, ...]] = Counter()
        data, diff = form.answer(self._seed)
        self._pending_changes = self._set_changes([Updates.of(data, (goal.epoch,), diff)])
        form.listeners.append(self)

    def result(self) -> Result:
        """Return the current answer, a copy that later commits do not change."""
        return self._reader.result(*self._check_form().answer(self._seed), self._constants)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.result())

    def __len__(self) -> int:
        return len(self.result())

    def changes(self) -> Iterator[Change]:
        """Return the changes since the last call, as (row, epoch, +1 or -1).

        The first call returns the initial answer.
        """
        self._check_form()
        changes, self._pending_changes = self._pending_changes, []
        return iter(changes)

    def notifications(self) -> Iterator[Notification]:
        """Read the last commit's changes, and yield the call of the callback with them."""
        updates, self._mailbox.unread = self._mailbox.unread, []
        changes = self._set_changes(updates)
        self._pending_changes += changes
        if changes and self._callback is not None:
            yield partial(self._callback, changes)

    def _remove_callback(self) -> None:
        self._callback = None

    def follow_new_feed(self) -> None:
        """Read changes from the form's new feed, which begins where the previous feed ends."""
        self._mailbox = self._check_form().feed.open_queue()

    def close(self) -> None:
        """Stop following the answer. It is not maintained any longer unless another subscription needs it."""
        form, self._form = self._form, None
        if form is not None:
            self._goal.admit_owner()
            form.listeners.remove(self)
            self._goal.forget(self)
            form.remove_subscription(self._seed)

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_form(self) -> QueryForm:
        if self._form is None or self._form.closed:
            raise InterfaceError("the subscription was closed", hint="subscribe again")
        self._goal.admit_owner()
        return self._form

    def _set_changes(self, parts: Sequence[Updates]) -> list[Change]:
        """Return the changes of the answer as a set.

        Several rows of the relation may be one row of the answer.
        """
        if not parts:
            return []
        updates = Updates.concat(parts)
        rows, keep = self._reader.select(updates.data, self._constants)
        times, diffs = updates.times()[0][keep], updates.diffs()[keep]
        flips: list[Updates] = []
        for time in np.unique(times).tolist():
            is_at_time = times == time
            flips += self._flip_rows(rows[:, is_at_time], diffs[is_at_time].tolist(), time)
        return self._reader.reader.changes(flips)

    def _flip_rows(self, rows: Words, diffs: list[int], time: int) -> list[Updates]:
        """Return the rows that an epoch adds to the answer or removes from it."""
        was_present: dict[tuple[int, ...], bool] = {}
        for row, diff in zip(map(tuple, rows.T.tolist()), diffs, strict=True):
            was_present.setdefault(row, self._counts[row] > 0)
            self._counts[row] += diff
        flips = []
        for row, before in was_present.items():
            after = self._counts[row] > 0
            if after != before:
                flips.append((row, 1 if after else -1))
            if not after:
                del self._counts[row]
        if not flips:
            return []
        words = np.array([row for row, _ in flips], np.int64).T
        return [Updates.of(words, (time,), [diff for _, diff in flips])]
