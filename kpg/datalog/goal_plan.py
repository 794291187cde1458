"""Query form: a relation with bound columns, which goals share, and its evaluation strategy.

An answer with subscribers is maintained. Any other answer is computed by a step that is rolled
back. It is maintained for a while if it is requested again after a change. ``AnswerCache`` holds
recent answers, bounded in number and in rows.

Answers are computed by magic sets. When the demand becomes a large share of the possible seeds, the
form changes to the full relation and looks answers up in it. ``AcyclicEdges`` tells whether the
edges between two columns of a table are free of cycles at present.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.magic import Policy, Strategy, is_finite, origins
from kpg.datalog.goal_dataflow import BindingPattern, GoalDataflow, Seed
from kpg.datalog.privileges import may_see_text
from kpg.datalog.program_plans import add_error_position, locate_error
from kpg.runtime.errors import DatabaseError, DataError, InterfaceError
from kpg.runtime.records import dataclass
from kpg.session.base_table import Table
from kpg.session.engine import Engine
from kpg.session.notification_queue import Notification
from kpg.session.subscriptions import Feed

Words = NDArray[np.int64]


AnswerRows = tuple[Words, Words]
MAX_CACHED_ANSWERS: Final = 64
"""Maximum number of cached answers."""
MAX_CACHED_ROWS: Final = 1 << 18
"""Maximum number of rows of all cached answers."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer as of an epoch."""

    epoch: int
    rows: AnswerRows

    @property
    def size(self) -> int:
        return self.rows[0].shape[1]


class AnswerCache:
    """An LRU cache of answers by seed."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Seed, CachedAnswer] = OrderedDict()
        self._rows = 0

    def find(self, seed: Seed) -> CachedAnswer | None:
        """Return the cached answer to a seed, of any epoch, or None."""
        return self._answers.get(seed)

    def put(self, seed: Seed, answer: CachedAnswer) -> None:
        """Cache an answer and evict the oldest ones. An answer of more than ``MAX_CACHED_ROWS`` is not
        cached.
        """
        self.evict(seed)
        if answer.size > MAX_CACHED_ROWS:
            return
        self._answers[seed] = answer
        self._rows += answer.size
        while len(self._answers) > MAX_CACHED_ANSWERS or self._rows > MAX_CACHED_ROWS:
            self.evict(next(iter(self._answers)))

    def evict(self, seed: Seed) -> None:
        """Remove the answer to a seed, if it is cached."""
        answer = self._answers.pop(seed, None)
        if answer is not None:
            self._rows -= answer.size


class RecentSeeds:
    """Seeds without subscribers that stay maintained, the least recent first.

    A seed enters when it is requested again after a change. It leaves if there are more than
    ``capacity`` others, or if it is not requested for ``max_idle`` commits.
    """

    def __init__(self, capacity: int, max_idle: int) -> None:
        self._capacity = capacity
        self._max_idle = max_idle
        self._last_use: OrderedDict[Seed, int] = OrderedDict()
        self._commits = 0

    def __contains__(self, seed: object) -> bool:
        return seed in self._last_use

    def __iter__(self) -> Iterator[Seed]:
        return iter(tuple(self._last_use))

    def __len__(self) -> int:
        return len(self._last_use)

    def touch(self, seed: Seed) -> None:
        """Mark a seed as used now."""
        self._last_use[seed] = self._commits
        self._last_use.move_to_end(seed)

    def expire(self, seed: Seed) -> None:
        """Keep a seed until the next commit, which finds it among the surplus."""
        self._last_use[seed] = self._commits - self._max_idle - 1
        self._last_use.move_to_end(seed, last=False)

    def discard(self, seed: Seed) -> None:
        """Remove a seed, if it is there."""
        self._last_use.pop(seed, None)

    def count_commit(self) -> None:
        """Count a commit."""
        self._commits += 1

    def expired(self) -> list[Seed]:
        """Return the seeds beyond the capacity or idle for too long."""
        excess = len(self._last_use) - self._capacity
        oldest = self._commits - self._max_idle
        return [
            seed
            for position, (seed, last_use) in enumerate(self._last_use.items())
            if position < excess or last_use < oldest
        ]


MAX_DEMAND_SHARE: Final = 0.5
"""Share of the possible seeds from which on the full relation is computed."""
MIN_POSSIBLE_SEEDS: Final = 64
"""Number of possible seeds below which magic sets are cheap in any case."""


class DemandLimits:
    """Limits of the demand on a program's relations, from the present tables."""

    def __init__(self, program: core.Program, tables: Mapping[str, Table]) -> None:
        self._program = program
        self._tables = tables
        self._is_finite = is_finite(program)

    def limit(self, relation: str, bound: Sequence[bool]) -> int | None:
        """Return the number of demanded values of the bound columns at which the full relation is cheaper.

        Returns None if it is unknown, because the program computes values or reads relations that are not
        tables.
        """
        if not self._is_finite or self._program.relations[relation].required_bindings:
            return None
        possible = 1
        for column in (column for column, is_bound in enumerate(bound) if is_bound):
            count = self._max_values(relation, column)
            if count is None:
                return None
            possible *= count
        return int(MAX_DEMAND_SHARE * possible) if possible >= MIN_POSSIBLE_SEEDS else None

    def _max_values(self, relation: str, position: int) -> int | None:
        """Return an upper bound of the number of distinct values in a column, or None if it is unknown."""
        source_columns = origins(self._program, relation, position)
        if source_columns is None or any(name not in self._tables for name, _ in source_columns):
            return None
        parts = [self._tables[name].scan((column,))[0] for name, column in source_columns]
        return int(np.unique(np.concatenate(parts)).shape[0]) if parts else 0


MAX_LEVELS: Final = 1024
"""Maximum length of a path; longer ones count as cycles. Counting by levels does not go further."""


class AcyclicEdges:
    """The (table, from columns, to columns) whose edges have no cycle, computed at each lookup.

    Both sides must be single columns.
    """

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


def is_acyclic(start: Words, end: Words, max_length: int = MAX_LEVELS) -> bool:
    """Return whether the edges ``start[i] -> end[i]`` have no cycle and no path beyond ``max_length``.

    Removes nodes without incoming edges until none is left: O(n log n), at most ``max_length`` rounds.
    """
    nodes, node_ids = np.unique(np.concatenate((start, end)), return_inverse=True)
    source, target = node_ids[: start.shape[0]], node_ids[start.shape[0] :]
    order = np.argsort(source, kind="stable")
    target = target[order]
    first = np.searchsorted(source[order], np.arange(nodes.shape[0] + 1))
    incoming = np.bincount(target, minlength=nodes.shape[0])
    roots = np.flatnonzero(incoming == 0)
    left = nodes.shape[0]
    for _ in range(max_length + 1):
        left -= roots.shape[0]
        counts = first[roots + 1] - first[roots]
        total = int(counts.sum())
        if not left or not total:
            break
        offsets = np.repeat(first[roots] - np.cumsum(counts) + counts, counts)
        reached, times = np.unique(target[offsets + np.arange(total)], return_counts=True)
        incoming[reached] -= times
        roots = reached[incoming[reached] == 0]
    return left == 0


GoalRows = tuple[Words, Words]
MAX_RECENT_SEEDS: Final = 8
"""Maximum number of maintained seeds without subscribers."""
MAX_STATE_ROWS: Final = 1 << 20
"""Rows of state above which no seed without subscribers stays maintained."""
MAX_IDLE_BYTES: Final = 1 << 28
"""Bytes of state that may stay allocated while no seed is maintained."""
TRIM_INTERVAL: Final = 16
"""Number of one-time answers between two checks of the allocated state."""
MAX_IDLE_COMMITS: Final = 32
"""Commits without a request after which a seed without subscribers is no longer maintained."""
SAMPLED_ANSWERS: Final = frozenset(8 * 4**n for n in range(15))
"""The counts of one-time answers at which the last seed's demand is measured.

A measurement costs as much as the answer, and computing the full relation as much as several
answers. So the first comes after several answers.
"""


class AnswerListener(Protocol):
    """A subscription to the answers to a seed."""

    def notifications(self) -> Iterator[Notification]:
        """Yield the notifications of a commit. The feed's mailboxes already have its changes."""

    def follow_new_feed(self) -> None:
        """Read changes from the form's new feed from now on."""


class QueryForm:
    """The answers for a binding pattern, and the seeds that are maintained."""

    def __init__(
        self, engine: Engine, name: str, pattern: BindingPattern, materialized: frozenset[str]
    ) -> None:
        self._engine = engine
        self.name = name
        self._pattern = pattern
        self.users = 0
        self.closed = False
        self.listeners: list[AnswerListener] = []
        self._subscriptions: Counter[Seed] = Counter()
        self._recent_seeds = RecentSeeds(MAX_RECENT_SEEDS, MAX_IDLE_COMMITS)
        self._cache = AnswerCache()
        self._answer_count = 0
        """Number of one-time answers."""
        self._is_strategy_final = False
        """Whether another strategy was tried or there is no other."""
        self._strategy_changes = 0
        self._dataflow = GoalDataflow(engine, name, pattern, self._policy(materialized))
        self._feed: Feed | None = None
        engine.dataflows[name] = self
        self._record_uses()
        if engine.transactions.is_idle:
            self.install()

    def _tables(self) -> dict[str, Table]:
        tables = ((name, self._engine.find_table(name)) for name in self._pattern.tables)
        return {name: table for name, table in tables if table is not None}

    def _record_uses(self) -> None:
        """Register the relations that the form reads. They cannot be dropped except with CASCADE."""
        self._engine.record_reads(self.name, self._dataflow.views | frozenset(self._tables()))

    def _policy(self, materialized: frozenset[str], full_reason: str = "") -> Policy:
        tables = self._tables()
        rows = {name: table.row_count for name, table in tables.items()}
        return Policy(
            materialized=materialized, rows=rows, acyclic=AcyclicEdges(tables), full_reason=full_reason
        )

    def install(self) -> None:
        """Install the dataflow now instead of at the first request."""
        try:
            with add_error_position(self._pattern.program):
                self._dataflow.install()
        except BaseException:
            self.drop()
            raise

    @property
    def bound(self) -> tuple[bool, ...]:
        """Whether each column is bound, so that a seed has a value for it."""
        return self._dataflow.prepared.bound

    @property
    def feed(self) -> Feed:
        """The feed of changes in the maintained answers."""
        if self._feed is None:
            reader = self._dataflow.plan.reader(self._engine.executor.dictionary)
            self._feed = Feed(self._engine.monitor, self._engine.executor, self._dataflow.install(), reader)
        return self._feed

    # Subscriptions

    def add_subscription(self, seed: Seed) -> None:
        """Maintain the answers to a seed until a matching :meth:`remove_subscription`."""
        self._engine.refuse_in_transaction("following a goal")
        self._add_seed(seed)
        self._subscriptions[seed] += 1
        self._check_total_demand()

    def remove_subscription(self, seed: Seed) -> None:
        """Remove a subscription to a seed.

        Without other subscriptions the answers are not maintained any longer. Inside a transaction, this
        takes effect with a later change.
        """
        self._subscriptions[seed] -= 1
        if self._subscriptions[seed] <= 0:
            del self._subscriptions[seed]
            self._recent_seeds.touch(seed)
            if self._engine.transactions.is_idle:
                self._release([seed])

    def _add_seed(self, seed: Seed) -> None:
        if self._dataflow.has_seeds and not self._is_maintained(seed):
            self._change_seeds([seed], self._expired_seeds())
        self._recent_seeds.discard(seed)
        self._cache.evict(seed)

    def _is_maintained(self, seed: Seed) -> bool:
        return seed in self._recent_seeds or self._subscriptions[seed] > 0

    def _change_seeds(self, added: list[Seed], removed: list[Seed]) -> None:
        """Add and remove seeds in one commit. The commit can succeed even if a subscriber raises."""
        for seed in removed:
            self._recent_seeds.discard(seed)
        try:
            if self._dataflow.has_seeds:
                self._dataflow.change_seeds(added, removed)
        except BaseException:
            for seeds, keep in ((added, self._recent_seeds.touch), (removed, self._recent_seeds.expire)):
                for seed in seeds:
                    if self._dataflow.has_seed(seed) and not self._is_maintained(seed):
                        keep(seed)
            raise

    def _release(self, going: list[Seed]) -> None:
        """Give seeds up in a commit, or leave them to a later one.

        The open epoch cannot be committed while an input of a collection holds updates at it.
        """
        with suppress(InterfaceError):
            self._change_seeds([], going)

    def _expired_seeds(self) -> list[Seed]:
        if len(self._recent_seeds) and self._dataflow.state_rows > MAX_STATE_ROWS:
            return list(self._recent_seeds)
        return self._recent_seeds.expired()

    # Answers

    def answer(self, seed: Seed) -> GoalRows:
        """Return the answers to a seed, with or without subscriptions. Must run between transactions."""
        with add_error_position(self._pattern.program):
            return self._find_answer(seed)

    def _find_answer(self, seed: Seed) -> GoalRows:
        if not self._dataflow.has_seeds:
            return self._dataflow.rows()
        if self._subscriptions[seed]:
            return self._dataflow.look_up(seed)
        epoch, cached = self._engine.executor.epoch, self._cache.find(seed)
        if seed not in self._recent_seeds:
            if cached is None:
                return self._preview(seed)
            if cached.epoch == epoch:
                return cached.rows
            self._add_seed(seed)
        self._recent_seeds.touch(seed)
        return self._dataflow.look_up(seed)

    def _preview(self, seed: Seed) -> GoalRows:
        answer = self._dataflow.preview(seed)
        self._cache.put(seed, CachedAnswer(self._engine.executor.epoch, answer))
        self._answer_count += 1
        self._check_sampled_demand(seed)
        if self._answer_count % TRIM_INTERVAL == 0:
            self._trim()
        return answer

    def _trim(self) -> None:
        """Uninstall a dataflow with much allocated state if no seed is maintained."""
        if (
            not self._subscriptions
            and not len(self._recent_seeds)
            and self._dataflow.state_bytes > MAX_IDLE_BYTES
        ):
            self._dataflow.uninstall()
            self._feed = None

    def compute_answer(self, seed: Seed) -> GoalRows:
        """Return the answers to a seed inside a transaction, including its changes, computed from scratch."""
        return self._dataflow.compute_answer(seed)

    def explain(self) -> str:
        """Return the strategy, the rewritten program, the present demand and its limits, as text."""
        prepared = self._dataflow.prepared
        lines = [prepared.explanation.text().rstrip("\n")]
        if prepared.demands:
            lines += [
                "demand now:",
                *(f"  {name}: {self._size_text(name)} rows" for name in prepared.demands),
            ]
        for name, relation, bound in () if self._is_strategy_final else self._limited_demands():
            limit = self._demand_limits.limit(relation, bound)
            if limit is not None:
                lines.append(f"as a whole from {limit} rows of {name} on")
        return "\n".join(lines)

    def _size_text(self, relation: str) -> str:
        try:
            return str(self._dataflow.relation_size(relation))
        except DatabaseError as error:
            return error.message

    # Choice of strategy

    @property
    def _demand_limits(self) -> DemandLimits:
        return DemandLimits(self._pattern.program, self._tables())

    def _limited_demands(self) -> list[tuple[str, str, tuple[bool, ...]]]:
        """Return the demand relations with limits, each with its source relation and bound columns.

        These are the relations with derived demand, or else the demand of the seeds.
        """
        prepared = self._dataflow.prepared
        if not prepared.demands:
            return []
        if self._derives_demand:
            return list(prepared.derived_demands)
        return [(prepared.demands[0], self._pattern.relation, prepared.bound)]

    @property
    def _derives_demand(self) -> bool:
        """Whether the demand of a single seed can become too large."""
        prepared = self._dataflow.prepared
        return bool(prepared.derived_demands) and prepared.strategy is Strategy.MAGIC

    def _check_sampled_demand(self, seed: Seed) -> None:
        """Measure the demand of a seed that was just answered, at the counts of ``SAMPLED_ANSWERS``."""
        if self._derives_demand and not self._is_strategy_final and self._answer_count in SAMPLED_ANSWERS:
            self._check_demand(lambda name: self._dataflow.added_rows(name, seed))

    def _check_total_demand(self) -> None:
        """Measure the demand of all seeds whenever their number has doubled."""
        count = len(self._subscriptions)
        doubled = count & (count - 1) == 0 and (
            self._derives_demand or count >= MAX_DEMAND_SHARE * MIN_POSSIBLE_SEEDS
        )
        if doubled and not self._is_strategy_final:
            self._check_demand(self._dataflow.relation_size)

    def _check_demand(self, size: Callable[[str], int]) -> None:
        limits = self._demand_limits
        for name, relation, bound in self._limited_demands():
            limit = limits.limit(relation, bound)
            if limit is not None and (rows := size(name)) >= limit:
                self._change_strategy(
                    self._policy(self._dataflow.materialized, f"{rows} rows of {name}, at least {limit}")
                )
                self._is_strategy_final = True
                return

    def use_materialized(self, materialized: frozenset[str]) -> None:
        """Change to looking answers up in the relation itself if it is materialized by now."""
        if (
            self._pattern.relation in materialized
            and self._pattern.relation not in self._dataflow.materialized
        ):
            self._change_strategy(self._policy(materialized))

    def _change_strategy(self, policy: Policy) -> None:
        """Change to the strategy that the policy implies, unless it is the same or fails.

        Subscriptions continue without a gap.
        """
        self._strategy_changes += 1
        new = GoalDataflow(self._engine, f"{self.name}/{self._strategy_changes}", self._pattern, policy)
        seeds = list(dict.fromkeys((*self._subscriptions, *self._recent_seeds)))
        try:
            if new.prepared.strategy is self._dataflow.prepared.strategy:
                new.drop()
                return
            new.install()
            if seeds and new.has_seeds:
                new.change_seeds(seeds, [])
        except DatabaseError:
            new.drop()
            return
        except BaseException:
            new.drop()
            raise
        old, self._dataflow, self._feed = self._dataflow, new, None
        self._record_uses()
        for listener in self.listeners:
            listener.follow_new_feed()
        old.drop()

    # The engine's client protocol

    def notifications(self) -> Iterator[Notification]:
        """Yield the notifications of a commit, and the removal of expired seeds."""
        if self._feed is not None and self._feed.has_listeners():
            for _ in self._feed.distribute():
                pass
        for listener in list(self.listeners):
            yield from listener.notifications()
        self._recent_seeds.count_commit()
        if len(self._recent_seeds) and self._expired_seeds():
            yield self._remove_expired_seeds

    def retire(self) -> None:
        """Do nothing: tables can always change."""

    def prover(self, name: str) -> None:
        """Return None: the views of goals have no proofs."""

    def locate_error(self, error: DataError) -> None:
        """Add the position in the program's text to an error of one of its rules."""
        if may_see_text(self._engine.catalog, self._pattern.program):
            locate_error(error, self._pattern.program)

    def _remove_expired_seeds(self) -> None:
        if not self.closed and self._engine.transactions.is_idle:
            self._release(self._expired_seeds())

    def pull(self) -> None:
        """Do nothing: a goal has no inputs of its own."""

    def drop(self) -> None:
        """Drop the dataflow and the seeds. Dropping twice is allowed."""
        if not self.closed:
            self.closed = True
            self._engine.remove_dataflow(self.name)
            self._dataflow.drop()
