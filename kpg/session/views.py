"""Views of an engine: creates, installs, renames and drops them, and lets them follow the tables they read.

A materialized view is maintained by an installed plan. A view that a transaction creates is expanded where it
is used until the commit installs it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kpg.api.view import MaintainedView
from kpg.compiler.algebra.rel import Get, Project, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.entries import (
    DEPENDENCIES,
    INDEXES,
    STALE_TEXTS,
    Catalog,
    TableEntry,
    ViewEntry,
    get_node,
    move_comments,
)
from kpg.compiler.qualified_names import QualifiedName
from kpg.execute.queries.query_plan import LiveStatistics, PlannedStatement, plan_view_entry
from kpg.execute.queries.result_rows import Reader
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.monitor import Monitor
from kpg.runtime.plan import Ego, Plan
from kpg.runtime.records import dataclass
from kpg.session.subscriptions import Feed
from kpg.session.tables import TablesHost, ops_to_rename
from kpg.session.transaction import Transactions
from kpg.session.undo import Journal

if TYPE_CHECKING:
    from kpg.compiler import ego
    from kpg.session.time_travel import History
else:
    ego = LazyModule("kpg.compiler.ego")


@dataclass(frozen=True, slots=True)
class PendingView:
    """A view that the commit installs.

    ``materialized`` is its entry's state after the commit. ``computed`` is the :meth:`Views.row_state`
    in which its rows were computed without an error.
    """

    materialized: bool
    install: Callable[[], None]
    computed: object = None


class ViewHost(TablesHost, Protocol):
    """The members of the engine that its views use."""

    @property
    def transactions(self) -> Transactions:
        """The transaction of the current session."""

    @property
    def history(self) -> "History | None":
        """Earlier epochs, if they are kept."""

    @property
    def waiting_goals(self) -> dict[str, Any]:
        """Stored goals that have not been prepared since the database was opened."""

    def refuse_in_transaction(self, operation: str) -> None:
        """Raise an error within a transaction, for an operation that cannot be undone."""


class Views(Mapping[str, MaintainedView]):
    """The views of an engine; as a mapping, the maintained ones by name as the catalog spells it."""

    def __init__(
        self,
        executor: Executor,
        catalog: Catalog,
        journal: Journal,
        interrupt: DeferredInterrupt,
        monitor: Monitor,
        plans: dict[str, Plan],
        statistics: LiveStatistics,
        engine: ViewHost,
    ) -> None:
        """Manage views; ``plans`` receives the plans of maintained views."""
        self._executor = executor
        self._catalog = catalog
        self._journal = journal
        self._interrupt = interrupt
        self._monitor = monitor
        self._engine = engine
        self.statistics = statistics
        self.by_name: dict[str, MaintainedView] = {}
        """Maintained views by name as the catalog spells it."""
        self.plans = plans
        self.pending: dict[str, PendingView] = {}
        """Views that the commit of the open transaction installs, by name."""

    @property
    def reads(self) -> Mapping[str, frozenset[str]]:
        """Relations and keys of functions that each view or dataflow reads, by its name."""
        return self._catalog.dependencies

    @property
    def stale_texts(self) -> Mapping[str, bool]:
        """Views whose text does not define them."""
        return self._catalog.stale_texts

    def record_reads(self, name: str, reads: frozenset[str]) -> None:
        """Record what a view or dataflow reads, so that it cannot be dropped."""
        self._catalog.apply(DEPENDENCIES.put(name, reads))

    def __getitem__(self, name: str) -> MaintainedView:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def adopt(self, maintained: MaintainedView, plan: Plan | None) -> None:
        """Add a view that is installed; ``plan`` is None if another database has made it."""
        if plan is not None:
            self.plans[maintained.name] = plan
        self.by_name[maintained.name] = maintained

    def relations_under(self, names: Iterable[str]) -> frozenset[str]:
        """Return relations with everything that they read, directly or not."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.reads.get(name, ())
        return frozenset(found)

    def read_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each view with each relation that it reads."""
        return ((name, used) for name, names in self.reads.items() for used in sorted(names))

    def create(self, entry: ViewEntry, reads: frozenset[str], *, replace_old: bool) -> None:
        """Create a view that is expanded where it is used."""
        self._engine.check_can_define("CREATE VIEW")
        old = self._check_replaceable(entry.name, reads, replace_old)
        with self._interrupt:
            self._catalog.add(entry, replace=replace_old)
            if old is not None:
                self.remove(old)
            self.record_reads(entry.name, reads)

    def create_materialized(
        self, entry: ViewEntry, planned: PlannedStatement, reads: frozenset[str], *, replace_old: bool
    ) -> MaintainedView:
        """Install and maintain a view; an error changes nothing."""
        self._engine.refuse_in_transaction("CREATE MATERIALIZED VIEW")
        old = self._check_replaceable(entry.name, reads, replace_old)
        if old is None and entry.name in self._catalog:
            self._catalog.add(entry)
        with self._interrupt:
            installation = self._install(entry.name, planned, old)
            return self._register(entry, planned, reads, installation)

    def row_state(self) -> object:
        """Return a value that differs after any change of rows, in the transaction or by a commit."""
        return self._executor.epoch, self._executor.tables.savepoint()

    def create_at_commit(
        self,
        entry: ViewEntry,
        plan: Callable[[], PlannedStatement],
        reads: frozenset[str],
        *,
        replace_old: bool,
        computed: object = None,
    ) -> None:
        """Within a transaction, create a view that is expanded until the commit materializes it.

        ``computed`` is the :meth:`row_state` in which it was computed.
        """
        expanded = replace(entry, materialized=False)
        self.create(expanded, reads, replace_old=replace_old)
        name = entry.name

        def install() -> None:
            view = self._catalog.get(name)
            assert isinstance(view, ViewEntry)
            planned = plan() if view is expanded else self._plan_definition(view)
            self.materialize(replace(view, materialized=entry.materialized), planned, self.reads[name])

        self._install_at_commit(name, PendingView(entry.materialized, install, computed))

    def materialize(
        self, entry: ViewEntry, planned: PlannedStatement, reads: frozenset[str]
    ) -> MaintainedView:
        """Maintain a view that was expanded; views over it do not change."""
        with self._interrupt:
            return self._register(entry, planned, reads, self._executor.install(entry.name, planned.plan))

    def _plan_definition(self, entry: ViewEntry) -> PlannedStatement:
        """Plan a view by its present definition."""
        assert entry.rel is not None
        reader = Reader(entry.schema.names, rel_types(entry.rel), entry.order, self._executor.dictionary)
        return plan_view_entry(entry, reader, self._catalog, self.statistics)

    def _install_at_commit(self, name: str, keeping: PendingView) -> None:
        """Install a view when the transaction commits, unless it is dropped, replaced, or this is undone."""
        before = self.pending.get(name)
        self.pending[name] = keeping

        def undo() -> None:
            if before is None:
                self.pending.pop(name, None)
            else:
                self.pending[name] = before

        def finish() -> None:
            if self.pending.get(name) is keeping:
                del self.pending[name]
                keeping.install()

        self._journal.add(undo, finish)

    def _register(
        self,
        entry: ViewEntry,
        planned: PlannedStatement,
        reads: frozenset[str],
        installation: Installation,
        before: MaintainedView | None = None,
    ) -> MaintainedView:
        """Register an installed view; ``before`` is its record under a former installation."""
        self._catalog.add(entry, replace=True)
        self.record_reads(entry.name, reads)
        self.plans[entry.name] = planned.plan
        reader = planned.reader(self._executor.dictionary)
        if self._engine.history is not None:
            self._engine.history.keep_changes(installation)
        if before is None:
            feed = Feed(self._monitor, self._executor, installation, reader, self._engine.history)
            maintained = MaintainedView(entry.name, entry.sql, installation, reader, feed)
        else:
            maintained = before
            maintained.installation, maintained.reader, maintained.sql = installation, reader, entry.sql
        self.by_name[entry.name] = maintained
        self._journal.add(undo=partial(self._unregister, maintained))
        return maintained

    def _unregister(self, maintained: MaintainedView) -> None:
        if self.by_name.get(maintained.name) is maintained:
            del self.by_name[maintained.name]
            self.plans.pop(maintained.name, None)
        maintained.is_live = False
        self._executor.uninstall(maintained.installation)

    def dependents(self, name: str) -> list[str]:
        """Return the views that read a relation, directly or not, in order of dependency."""
        found: set[str] = set()
        pending = [name]
        while pending:
            relation = pending.pop()
            users = [view for view, used in self.reads.items() if relation in used and view not in found]
            found.update(users)
            pending += users
        return [QualifiedName(view) for view in self.reads if view in found]

    def users(self, name: str) -> list[str]:
        """Return the :meth:`dependents`, after dropping stored goals among them not prepared again."""
        found = self.dependents(name)
        for text, goal in list(self._engine.waiting_goals.items()):
            if goal.label in found:
                del self._engine.waiting_goals[text]
                goal.drop()
                found = self.dependents(name)
        return found

    def _check_replaceable(self, name: str, uses: frozenset[str], replace_old: bool) -> ViewEntry | None:
        """Return the view that a new one replaces, after checking that nothing uses it."""
        old = self._catalog.find(name)
        if not replace_old or not isinstance(old, ViewEntry):
            return None
        if old.name in uses:
            raise ProgrammingError(f'view "{old.name}" cannot be replaced by a query over itself')
        users = self.users(old.name)
        if users:
            raise ProgrammingError(
                f'view "{old.name}" cannot be replaced: "{users[0]}" uses it', hint=f'drop "{users[0]}" first'
            )
        return old

    def _install(self, name: str, planned: PlannedStatement, old: ViewEntry | None) -> Installation:
        if old is None:
            return self._executor.install(name, planned.plan)
        # First under another name: a failure leaves the old view, and success shares its operators.
        stand_in = self._executor.install(f"{name} (new)", planned.plan)
        self.remove(old)
        installed = self._executor.install(name, planned.plan)
        self._executor.uninstall(stand_in)
        return installed

    def remove(self, entry: ViewEntry) -> None:
        """Stop maintaining a view that has left the catalog; a rollback restores it."""
        name = entry.name
        self._catalog.apply(
            DEPENDENCIES.remove(name),
            STALE_TEXTS.remove(name),
            *(INDEXES.remove(key) for key, index in self._catalog.indexes.items() if index.table == name),
        )
        keeping = self.pending.pop(name, None)
        if keeping is not None:
            self._journal.add(undo=partial(self.pending.__setitem__, name, keeping))
        plan = self.plans.pop(name, None)
        maintained = self.by_name.pop(name, None)
        if maintained is None:
            return
        maintained.is_live = False

        def undo() -> None:
            maintained.is_live = True
            self.by_name[name] = maintained
            if plan is not None:
                self.plans[name] = plan

        def undo_idle() -> None:
            undo()
            assert plan is not None
            maintained.installation = self._executor.install(name, plan)
            maintained.feed = Feed(
                self._monitor,
                self._executor,
                maintained.installation,
                maintained.reader,
                self._engine.history,
            )

        if self._engine.transactions.is_idle:
            self._executor.uninstall(maintained.installation)
            if plan is not None:
                self._journal.add(undo_idle)
        else:
            self._journal.add(undo, partial(self._executor.uninstall, maintained.installation))

    def follow_rewrite(
        self, old: TableEntry, new: TableEntry, kept: tuple[int, ...], views: Sequence[ViewEntry]
    ) -> None:
        """Make views read a rewritten table, whose first columns are the ``kept`` ones of the old table."""
        width, rowid = len(new.schema.columns), len(old.schema.columns)
        places = [kept.index(place) if place in kept else 0 for place in range(rowid)]
        columns = (*places, width)
        get = get_node(new)

        def redirect(node: Rel) -> Rel:
            if isinstance(node, Get) and node.is_table and node.name == old.name:
                return Project(get, columns)
            return node

        for view in views:
            assert view.rel is not None
            self.redefine(replace(view, definition=transform_up(view.rel, redirect)))

    def follow_columns(self, table: str) -> None:
        """Mark the texts of views over a table as stale, as its columns have changed."""
        for user in self.dependents(table):
            self.mark_text_stale(user)

    def follow_rename(self, old_name: str, name: str) -> None:
        """Make views over a table read it by its new name."""

        def rename_get(node: Rel) -> Rel:
            return replace(node, name=name) if isinstance(node, Get) and node.name == old_name else node

        for user in self.dependents(old_name):
            view = self._catalog.find(user)
            if isinstance(view, ViewEntry) and view.rel is not None:
                self.redefine(replace(view, definition=transform_up(view.rel, rename_get)))
                self._rename_overlay(user, old_name, name)
        self._catalog.apply(
            *(
                DEPENDENCIES.put(user, used - {old_name} | {name})
                for user, used in self.reads.items()
                if old_name in used
            )
        )

    def _rename_overlay(self, view: str, old_name: str, name: str) -> None:
        """Rename a table in an ego view's plan, whose overlay is not in its definition."""
        before = self.plans.get(view)
        if before is not None and _has_overlay(before):
            self.plans[view] = ego.rename_table(before, old_name, name)
            self._journal.add(undo=partial(self.plans.__setitem__, view, before))

    def is_ego_view(self, name: str) -> bool:
        """Whether the plan of an ego view maintains a view."""
        plan = self.plans.get(name)
        return plan is not None and _has_overlay(plan)

    def _replan(self, entry: ViewEntry, reader: Reader, former_plan: Plan | None) -> PlannedStatement:
        """Plan a maintained view by its present definition; an ego view keeps its plan.

        While a view uses a table, the table's columns only grow at the end.
        """
        planned = plan_view_entry(entry, reader, self._catalog, self.statistics)
        return (
            planned
            if former_plan is None or not _has_overlay(former_plan)
            else replace(planned, plan=former_plan)
        )

    def _reinstall_redefined(self, name: str) -> None:
        """Reinstall a redefined view at the commit; its plan is obsolete."""
        before = self.plans.pop(name, None)
        if before is not None:
            self._journal.add(undo=partial(self.plans.__setitem__, name, before))
        self.reinstall_at_commit(name)

    def replace(self, entry: ViewEntry, reads: frozenset[str], over: Sequence[ViewEntry]) -> None:
        """Replace a plain view, and the definitions of the views ``over`` it."""
        self._engine.check_can_define("CREATE VIEW")
        kept = [view.name for view in over if view.name in self.by_name]
        if kept and self._executor.tables.has_pending:
            raise NotSupportedError(
                f'replacing view "{entry.name}" in a transaction that has changed rows is not supported '
                f"while {kept[0]} uses it"
            )
        with self._interrupt:
            for view in (entry, *over):  # in order of dependency
                self._catalog.replace(view)
                reads_of_view = self.reads[view.name]
                self._catalog.apply(
                    DEPENDENCIES.remove(view.name), DEPENDENCIES.put(view.name, reads_of_view)
                )
            self.record_reads(entry.name, reads)
        for name in kept:
            self._reinstall_redefined(name)

    def replace_plans(self, views: Sequence[tuple[ViewEntry, frozenset[str]]]) -> None:
        """Replace the plans of views, each with the relations that it reads."""
        kept = [view.name for view, _ in views if view.name in self.by_name]
        if kept and self._executor.tables.has_pending:
            raise NotSupportedError(
                "replacing a function in a transaction that has changed rows is not supported "
                f"while {kept[0]} uses it"
            )
        with self._interrupt:
            for view, uses in views:
                self._catalog.replace(view)
                self.record_reads(view.name, uses)
        for name in kept:
            self._reinstall_redefined(name)

    def redefine(self, entry: ViewEntry) -> None:
        """Replace a view's definition, so that its text is stale."""
        self._catalog.replace(entry)
        self.mark_text_stale(entry.name)
        if entry.name in self.by_name:
            self.reinstall_at_commit(entry.name)

    def mark_text_stale(self, name: str) -> None:
        """Mark that a view's text does not define it."""
        if name not in self.stale_texts:
            self._catalog.apply(STALE_TEXTS.put(name, True))

    def reinstall_at_commit(self, name: str) -> None:
        """Install a maintained view by its present definition when the transaction commits."""
        entry = self._catalog.get(name)
        assert isinstance(entry, ViewEntry)
        self._install_at_commit(name, PendingView(entry.materialized, partial(self._reinstall, name)))

    def _reinstall(self, name: str) -> None:
        """Install a maintained view by its present definition."""
        entry = self._catalog.find(name)
        if not isinstance(entry, ViewEntry) or name not in self.by_name:
            return
        with self._interrupt:
            maintained = self.by_name.pop(name)
            planned = self._replan(entry, maintained.reader, self.plans.get(name))
            keeps_types = planned.reader(self._executor.dictionary).types == maintained.reader.types
            detached = maintained.feed.detach() if keeps_types else None
            maintained.is_live = keeps_types
            self._executor.uninstall(maintained.installation)
            installation = self._executor.install(name, planned.plan)
            before = maintained if keeps_types else None
            registered = self._register(entry, planned, self.reads[name], installation, before)
            if keeps_types:
                registered.feed.attach(installation, registered.reader, detached)

    def rename(self, entry: ViewEntry, name: str) -> None:
        """Rename a view that nothing uses."""
        if self._executor.tables.has_pending and entry.name in self.by_name:
            raise NotSupportedError(
                "renaming a materialized view in a transaction that has changed rows is not supported"
            )
        maintained, keeping = self.by_name.get(entry.name), self.pending.get(entry.name)
        new, plan = replace(entry, name=name), self.plans.get(entry.name)
        uses = self.reads[entry.name]
        self._catalog.remove(entry.name)
        old_key, new_key = ("RELATION", entry.name.lower()), ("RELATION", name.lower())
        self._catalog.apply(
            *self._catalog.privileges.ops_to_rename(old_key, new_key),
            *move_comments(self._catalog, entry.name, name),
        )
        self.remove(entry)
        if keeping is not None and maintained is None:
            new = replace(new, materialized=keeping.materialized)
            self.create_at_commit(new, partial(self._plan_definition, new), uses, replace_old=False)
        elif maintained is None:
            self.create(new, uses, replace_old=False)
        else:
            planned = partial(self._replan, new, maintained.reader, plan)
            if self._engine.transactions.is_idle:
                self.create_materialized(new, planned(), uses, replace_old=False)
            else:
                self.create_at_commit(new, planned, uses, replace_old=False)

    def rename_plain(self, entry: ViewEntry, name: str) -> None:
        """Rename a plain view, also in views over it."""
        was, catalog = entry.name, self._catalog
        catalog.remove(was)
        catalog.add(replace(entry, name=name))
        catalog.apply(*ops_to_rename(catalog, was, name))
        for user in catalog:
            if isinstance(user, ViewEntry) and user.below == was:
                catalog.replace(replace(user, below=name))
        uses = {  # all anew, keeping the order
            QualifiedName(name) if view == was else view: used - {was} | {name} if was in used else used
            for view, used in self.reads.items()
        }
        catalog.apply(
            *map(DEPENDENCIES.remove, self.reads),
            *(DEPENDENCIES.put(view, used) for view, used in uses.items()),
        )
        if was in self.stale_texts:
            catalog.apply(STALE_TEXTS.remove(was), STALE_TEXTS.put(name, True))

    def rename_column(self, name: str, position: int, new: str) -> None:
        """Rename a column for readers of a maintained view."""
        maintained = self.by_name[name]
        before = maintained.reader
        names = list(before.names)
        names[position] = new
        maintained.reader = replace(before, names=tuple(names))
        self._journal.add(undo=partial(setattr, maintained, "reader", before))

    def all_reads(self) -> frozenset[str]:
        """Return everything that some view reads."""
        return frozenset().union(*self.reads.values())

    def reads_of(self, name: str) -> frozenset[str]:
        """Return the relations that a view reads."""
        return self.reads.get(name, frozenset())

    def plan_of(self, name: str) -> Plan | None:
        """Return the plan of a maintained view, or None."""
        return self.plans.get(name)

    def restore(
        self, entry: ViewEntry, reads: frozenset[str], plan_state: tuple[Any, ...] | None, *, is_stale: bool
    ) -> None:
        """Restore a view when a database is opened.

        ``plan_state`` is its plan, and the names, types and order of its columns.
        """
        if plan_state is not None and entry.rel is not None and not entry.materialized:
            # Earlier versions recorded a view made in a transaction as not materialized.
            hidden = len(rel_types(entry.rel)) > len(entry.schema.columns)
            entry = replace(entry, materialized=not hidden)
        self._catalog.add(entry)
        self.record_reads(entry.name, reads)
        if is_stale:
            self.mark_text_stale(entry.name)
        if plan_state is None:
            return
        assert entry.rel is not None
        plan, names, types, order = plan_state or (
            None,
            entry.schema.names,
            rel_types(entry.rel),
            entry.order,
        )
        reader = Reader(names, types, order, self._executor.dictionary)
        if plan is None or self.statistics.early_materialization:
            # Without shared memory, columns are read elsewhere than in the stored plan.
            plan = self._replan(entry, reader, plan).plan
        with self._interrupt:
            installed = self._executor.install(entry.name, plan)
            self.plans[entry.name] = plan
            feed = Feed(self._monitor, self._executor, installed, reader, self._engine.history)
            if self._engine.history is not None:
                self._engine.history.keep_changes(installed)
            self.by_name[entry.name] = MaintainedView(entry.name, entry.sql, installed, reader, feed)


def _has_overlay(plan: Plan) -> bool:
    """Whether a plan has an ego node, which the view's text does not show."""
    return any(isinstance(node, Ego) for node in plan.nodes)
