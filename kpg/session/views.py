"""Views of an engine: creates, installs, renames and drops them, and lets them follow the tables they read.

A materialized view is maintained by an installed plan. A view that a transaction creates is expanded where it
is used until the commit installs it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import Get, Project, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry, get_of, move_comments
from kpg.compiler.qualified_names import Resolved
from kpg.execute.queries.query_plan import LiveStatistics, Planned, plan_view_entry
from kpg.execute.queries.result_rows import Reader
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.monitor import Monitor
from kpg.runtime.plan import Ego, Plan
from kpg.runtime.records import dataclass
from kpg.session.subscriptions import Feed
from kpg.session.tables import EngineState, rename_in_catalog
from kpg.session.transaction import Transactions
from kpg.session.undo import Journal, Uses

if TYPE_CHECKING:
    from kpg.compiler import ego
    from kpg.session.time_travel import Past
else:
    ego = LazyModule("kpg.compiler.ego")


@dataclass(frozen=True, slots=True)
class Keeping:
    """A view that a commit installs: whether its entry is ``materialized`` then, and what installs it.

    ``computed`` is the :meth:`Views.row_state` in which its rows have been computed without an error.
    """

    materialized: bool
    install: Callable[[], None]
    computed: object = None


class ViewHost(EngineState, Protocol):
    """What the views of an engine ask it for."""

    @property
    def transactions(self) -> Transactions:
        """The transaction of the session that runs now."""

    @property
    def past(self) -> "Past | None":
        """Earlier epochs, if the database keeps them."""

    @property
    def waiting_goals(self) -> dict[str, Any]:
        """Goals of a folder that nobody has prepared again yet."""

    def refuse_in_transaction(self, what: str) -> None:
        """Raise unless what cannot be undone may change now."""


class Views(Mapping[str, Maintained]):
    """The views of an engine; as a mapping, the maintained ones by name in the catalog's letters."""

    def __init__(
        self,
        executor: Executor,
        catalog: Catalog,
        journal: Journal,
        interrupt: DeferredInterrupt,
        monitor: Monitor,
        plans: dict[str, Plan],
        statistics: LiveStatistics,
        uses: Uses,
        engine: ViewHost,
    ) -> None:
        """``plans`` gets the plans of maintained views, ``uses`` what each view reads."""
        self._executor = executor
        self._catalog = catalog
        self._journal = journal
        self._interrupt = interrupt
        self._monitor = monitor
        self._engine = engine
        self.statistics = statistics
        self.maintained: dict[str, Maintained] = {}
        self.plans = plans
        self.reads = uses
        self.followed = set[str]()
        """Views whose texts alone do not say what they are: tables have changed below, or a style was set."""
        self.keeping: dict[str, Keeping] = {}
        """The views that the commit of the open transaction installs, by name."""

    def __getitem__(self, name: str) -> Maintained:
        return self.maintained[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.maintained)

    def __len__(self) -> int:
        return len(self.maintained)

    def adopt(self, maintained: Maintained, plan: Plan | None) -> None:
        """Add a view that is installed already; its plan is None if another database has made it."""
        if plan is not None:
            self.plans[maintained.name] = plan
        self.maintained[maintained.name] = maintained

    def tables_under(self, names: Iterable[str]) -> frozenset[str]:
        """Relations, and all that they are made of."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.reads.get(name, ())
        return frozenset(found)

    def uses(self) -> Iterator[tuple[str, str]]:
        """The views and what they are kept up to date by, pair by pair."""
        return ((name, used) for name, names in self.reads.items() for used in sorted(names))

    def create(self, entry: ViewEntry, uses: frozenset[str], *, replace_old: bool) -> None:
        """Add a view that is expanded where it is used."""
        self._engine.check_defining("CREATE VIEW")
        old = self._replaced(entry.name, uses, replace_old)
        with self._interrupt:
            self._catalog.add(entry, replace=replace_old)
            if old is not None:
                self.forget(old)
            self.reads[entry.name] = uses

    def create_materialized(
        self, entry: ViewEntry, planned: Planned, uses: frozenset[str], *, replace_old: bool
    ) -> Maintained:
        """Install a view, which is maintained from now on; an error changes nothing."""
        self._engine.refuse_in_transaction("CREATE MATERIALIZED VIEW")
        old = self._replaced(entry.name, uses, replace_old)
        if old is None and entry.name in self._catalog:
            self._catalog.add(entry)
        with self._interrupt:
            installed = self._install(entry.name, planned, old)
            return self._keep(entry, planned, uses, installed)

    def row_state(self) -> object:
        """Return a value that is another one once rows have changed in the transaction or by a commit."""
        return self._executor.epoch, self._executor.savepoint()

    def create_later(
        self,
        entry: ViewEntry,
        plan: Callable[[], Planned],
        uses: frozenset[str],
        *,
        replace_old: bool,
        computed: object = None,
    ) -> None:
        """In a transaction: a view that is expanded where it is used, until the commit has it kept.

        ``computed`` is the :meth:`row_state` in which it has been computed.
        """
        expanded = replace(entry, materialized=False)
        self.create(expanded, uses, replace_old=replace_old)
        name = entry.name

        def keep() -> None:
            view = self._catalog.get(name)
            assert isinstance(view, ViewEntry)
            planned = plan() if view is expanded else self._plan_definition(view)
            self.materialize(replace(view, materialized=entry.materialized), planned, self.reads[name])

        self._keep_at_commit(name, Keeping(entry.materialized, keep, computed))

    def materialize(self, entry: ViewEntry, planned: Planned, uses: frozenset[str]) -> Maintained:
        """Maintain a view that was expanded where it is used; views over it stay as they are."""
        with self._interrupt:
            return self._keep(entry, planned, uses, self._executor.install(entry.name, planned.plan))

    def _plan_definition(self, entry: ViewEntry) -> Planned:
        """Plan a view by its present definition."""
        assert entry.rel is not None
        reader = Reader(entry.schema.names, rel_types(entry.rel), entry.order, self._executor.dictionary)
        return plan_view_entry(entry, reader, self._catalog, self.statistics)

    def _keep_at_commit(self, name: str, keeping: Keeping) -> None:
        """Install a view when the transaction commits, unless it is dropped, replaced or undone before."""
        before = self.keeping.get(name)
        self.keeping[name] = keeping

        def undo() -> None:
            if before is None:
                self.keeping.pop(name, None)
            else:
                self.keeping[name] = before

        def done() -> None:
            if self.keeping.get(name) is keeping:
                del self.keeping[name]
                keeping.install()

        self._journal.note(undo, done)

    def _keep(
        self,
        entry: ViewEntry,
        planned: Planned,
        uses: frozenset[str],
        installed: Installation,
        before: Maintained | None = None,
    ) -> Maintained:
        """Note a view that is installed; ``before`` is what was known of it by another installation."""
        self._catalog.add(entry, replace=True)
        self.reads[entry.name] = uses
        self.plans[entry.name] = planned.plan
        reader = planned.reader(self._executor.dictionary)
        if self._engine.past is not None:
            self._engine.past.remember(installed)
        if before is None:
            feed = Feed(self._monitor, self._executor, installed, reader, self._engine.past)
            maintained = Maintained(entry.name, entry.sql, installed, reader, feed)
        else:
            maintained = before
            maintained.installed, maintained.reader, maintained.sql = installed, reader, entry.sql
        self.maintained[entry.name] = maintained
        self._journal.note(undo=partial(self._keep_no_more, maintained))
        return maintained

    def _keep_no_more(self, maintained: Maintained) -> None:
        if self.maintained.get(maintained.name) is maintained:
            del self.maintained[maintained.name]
            self.plans.pop(maintained.name, None)
        maintained.live = False
        self._executor.uninstall(maintained.installed)

    def dependents(self, name: str) -> list[str]:
        """The views that use a relation, directly or through others, those that others use first."""
        found: set[str] = set()
        pending = [name]
        while pending:
            one = pending.pop()
            users = [view for view, used in self.reads.items() if one in used and view not in found]
            found.update(users)
            pending += users
        return [Resolved(view) for view in self.reads if view in found]

    def users(self, name: str) -> list[str]:
        """As :meth:`dependents`, without goals of earlier lives that nobody prepared: they are given up."""
        found = self.dependents(name)
        for text, goal in list(self._engine.waiting_goals.items()):
            if goal.label in found:
                del self._engine.waiting_goals[text]
                goal.drop()
                found = self.dependents(name)
        return found

    def _replaced(self, name: str, uses: frozenset[str], replace_old: bool) -> ViewEntry | None:
        """The view that a new one of this name takes the place of; nobody may use it."""
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

    def _install(self, name: str, planned: Planned, old: ViewEntry | None) -> Installation:
        if old is None:
            return self._executor.install(name, planned.plan)
        # First under another name: if it fails the old view is still there, and if not, it is shared.
        stand_in = self._executor.install(f"{name} (new)", planned.plan)
        self.forget(old)
        installed = self._executor.install(name, planned.plan)
        self._executor.uninstall(stand_in)
        return installed

    def forget(self, entry: ViewEntry) -> None:
        """Stop maintaining a view that has left the catalog; a rollback restores it."""
        name = entry.name
        if name in self.followed:
            self.followed.discard(name)
            self._journal.note(undo=partial(self.followed.add, name))
        self.reads.pop(name, None)
        for index in [one for one in self._catalog.indexes.values() if one.table == name]:
            del self._catalog.indexes[index.name.lower()]
        keeping = self.keeping.pop(name, None)
        if keeping is not None:
            self._journal.note(undo=partial(self.keeping.__setitem__, name, keeping))
        plan = self.plans.pop(name, None)
        maintained = self.maintained.pop(name, None)
        if maintained is None:
            return
        maintained.live = False

        def undo() -> None:
            maintained.live = True
            self.maintained[name] = maintained
            if plan is not None:
                self.plans[name] = plan

        def undo_idle() -> None:
            undo()
            assert plan is not None
            maintained.installed = self._executor.install(name, plan)
            maintained.feed = Feed(
                self._monitor, self._executor, maintained.installed, maintained.reader, self._engine.past
            )

        if self._engine.transactions.idle:
            self._executor.uninstall(maintained.installed)
            if plan is not None:
                self._journal.note(undo_idle)
        else:
            self._journal.note(undo, partial(self._executor.uninstall, maintained.installed))

    def follow(
        self, old: TableEntry, new: TableEntry, kept: tuple[int, ...], views: Sequence[ViewEntry]
    ) -> None:
        """Have views read a table that was made anew; of its old columns those of ``kept`` are the first."""
        width, rowid = len(new.schema.columns), len(old.schema.columns)
        places = [kept.index(place) if place in kept else 0 for place in range(rowid)]
        columns = (*places, width)
        get = get_of(new)

        def moved(node: Rel) -> Rel:
            if isinstance(node, Get) and node.is_table and node.name == old.name:
                return Project(get, columns)
            return node

        for view in views:
            assert view.rel is not None
            self.move(replace(view, definition=transform_up(view.rel, moved)))

    def follow_columns(self, table: str) -> None:
        """Let the views over a table not go by their texts: its columns have other names or rules."""
        for user in self.dependents(table):
            self.leave_text(user)

    def follow_name(self, was: str, name: str) -> None:
        """Let the views over a table read it by its new name."""

        def moved(node: Rel) -> Rel:
            return replace(node, name=name) if isinstance(node, Get) and node.name == was else node

        for user in self.dependents(was):
            view = self._catalog.find(user)
            if isinstance(view, ViewEntry) and view.rel is not None:
                self.move(replace(view, definition=transform_up(view.rel, moved)))
                self._rename_overlay(user, was, name)
        for user, used in list(self.reads.items()):
            if was in used:
                self.reads[user] = used - {was} | {name}

    def _rename_overlay(self, view: str, was: str, name: str) -> None:
        """Have an ego view's plan follow a table, as its definition does not tell of its overlay."""
        before = self.plans.get(view)
        if before is not None and _is_ego(before):
            self.plans[view] = ego.renamed(before, was, name)
            self._journal.note(undo=partial(self.plans.__setitem__, view, before))

    def is_overlay(self, name: str) -> bool:
        """Whether a view is kept by the plan of an ego view."""
        plan = self.plans.get(name)
        return plan is not None and _is_ego(plan)

    def _planned_again(self, entry: ViewEntry, reader: Reader, known: Plan | None) -> Planned:
        """The plan of a kept view by its present definition; that of an ego view is the one it has.

        Columns only come behind those that there are while a view uses a table.
        """
        planned = plan_view_entry(entry, reader, self._catalog, self.statistics)
        return planned if known is None or not _is_ego(known) else replace(planned, plan=known)

    def _keep_redefined(self, name: str) -> None:
        """As :meth:`keep_later`, of a view that means something else now: its plan is of no use any more."""
        before = self.plans.pop(name, None)
        if before is not None:
            self._journal.note(undo=partial(self.plans.__setitem__, name, before))
        self.keep_later(name)

    def replace(self, entry: ViewEntry, uses: frozenset[str], over: Sequence[ViewEntry]) -> None:
        """A view that is not kept takes the place of another, and ``over``, who use it, have new plans."""
        self._engine.check_defining("CREATE VIEW")
        kept = [view.name for view in over if view.name in self.maintained]
        if kept and self._executor.has_pending:
            raise NotSupportedError(
                f'replacing view "{entry.name}" in a transaction that has changed rows is not supported '
                f"while {kept[0]} uses it"
            )
        with self._interrupt:
            for view in (entry, *over):  # those that others use stand first
                self._catalog.replace(view)
                self.reads[view.name] = self.reads.pop(view.name)
            self.reads[entry.name] = uses
        for name in kept:
            self._keep_redefined(name)

    def plan_again(self, views: Sequence[tuple[ViewEntry, frozenset[str]]]) -> None:
        """Views have other plans, which use what stands beside them."""
        kept = [view.name for view, _ in views if view.name in self.maintained]
        if kept and self._executor.has_pending:
            raise NotSupportedError(
                "replacing a function in a transaction that has changed rows is not supported "
                f"while {kept[0]} uses it"
            )
        with self._interrupt:
            for view, uses in views:
                self._catalog.replace(view)
                self.reads[view.name] = uses
        for name in kept:
            self._keep_redefined(name)

    def move(self, entry: ViewEntry) -> None:
        """A view has another definition, which is not that of its text."""
        self._catalog.replace(entry)
        self.leave_text(entry.name)
        if entry.name in self.maintained:
            self.keep_later(entry.name)

    def leave_text(self, name: str) -> None:
        """A view's text does not say any more what it is."""
        if name not in self.followed:
            self.followed.add(name)
            self._journal.note(undo=partial(self.followed.discard, name))

    def keep_later(self, name: str) -> None:
        """Have the commit install a kept view by its present definition: until then it has an old plan."""
        entry = self._catalog.get(name)
        assert isinstance(entry, ViewEntry)
        self._keep_at_commit(name, Keeping(entry.materialized, partial(self._keep_anew, name)))

    def _keep_anew(self, name: str) -> None:
        """Install a kept view by its present definition."""
        entry = self._catalog.find(name)
        if not isinstance(entry, ViewEntry) or name not in self.maintained:
            return
        with self._interrupt:
            maintained = self.maintained.pop(name)
            planned = self._planned_again(entry, maintained.reader, self.plans.get(name))
            stays = planned.reader(self._executor.dictionary).types == maintained.reader.types
            left = maintained.feed.leave_installation() if stays else None
            maintained.live = stays
            self._executor.uninstall(maintained.installed)
            installed = self._executor.install(name, planned.plan)
            before = maintained if stays else None
            kept = self._keep(entry, planned, self.reads[name], installed, before)
            if stays:
                kept.feed.move(installed, kept.reader, left)

    def rename(self, entry: ViewEntry, name: str) -> None:
        """A view that nothing uses has another name."""
        if self._executor.has_pending and entry.name in self.maintained:
            raise NotSupportedError(
                "renaming a materialized view in a transaction that has changed rows is not supported"
            )
        maintained, keeping = self.maintained.get(entry.name), self.keeping.get(entry.name)
        new, known = replace(entry, name=name), self.plans.get(entry.name)
        uses = self.reads[entry.name]
        self._catalog.remove(entry.name)
        self._catalog.rights.rename(("RELATION", entry.name.lower()), ("RELATION", name.lower()))
        if self._catalog.comments:
            move_comments(self._catalog, entry.name, name)
        self.forget(entry)
        if keeping is not None and maintained is None:
            new = replace(new, materialized=keeping.materialized)
            self.create_later(new, partial(self._plan_definition, new), uses, replace_old=False)
        elif maintained is None:
            self.create(new, uses, replace_old=False)
        else:
            planned = partial(self._planned_again, new, maintained.reader, known)
            if self._engine.transactions.idle:
                self.create_materialized(new, planned(), uses, replace_old=False)
            else:
                self.create_later(new, planned, uses, replace_old=False)

    def rename_expanded(self, entry: ViewEntry, name: str) -> None:
        """A view that is expanded where it is used has another name; views over it follow."""
        was, catalog = entry.name, self._catalog
        catalog.remove(was)
        catalog.add(replace(entry, name=name))
        rename_in_catalog(catalog, was, name)
        for user in list(catalog):
            if isinstance(user, ViewEntry) and user.below == was:
                catalog.replace(replace(user, below=name))
        uses = {
            Resolved(name) if view == was else view: used - {was} | {name} if was in used else used
            for view, used in self.reads.items()
        }
        self.reads.clear()  # in place, in the same order
        self.reads.update(uses)
        if was in self.followed:
            self.followed.discard(was)
            self._journal.note(undo=partial(self.followed.add, was))
            self.leave_text(name)

    def rename_column(self, name: str, place: int, new: str) -> None:
        """Readers of a kept view see another name."""
        maintained = self.maintained[name]
        before = maintained.reader
        names = list(before.names)
        names[place] = new
        maintained.reader = replace(before, names=tuple(names))
        self._journal.note(undo=partial(setattr, maintained, "reader", before))

    def used(self) -> frozenset[str]:
        """Everything that something uses."""
        return frozenset().union(*self.reads.values())

    def used_by(self, name: str) -> frozenset[str]:
        """What a view uses."""
        return self.reads.get(name, frozenset())

    def plan_of(self, name: str) -> Plan | None:
        """The plan by which a view is kept."""
        return self.plans.get(name)

    def restore(
        self, entry: ViewEntry, uses: frozenset[str], kept: tuple[Any, ...] | None, *, followed: bool
    ) -> None:
        """Have a view be as it was; ``kept`` is its plan, and its columns' names, types and order."""
        if kept is not None and entry.rel is not None and not entry.materialized:
            # Records of earlier versions say that one made in a transaction is not materialized.
            hidden = len(rel_types(entry.rel)) > len(entry.schema.columns)
            entry = replace(entry, materialized=not hidden)
        self._catalog.add(entry)
        self.reads[entry.name] = uses
        if followed:
            self.followed.add(entry.name)
        if kept is None:
            return
        assert entry.rel is not None
        plan, names, types, order = kept or (None, entry.schema.names, rel_types(entry.rel), entry.order)
        reader = Reader(names, types, order, self._executor.dictionary)
        if plan is None or self.statistics.early:
            # Who has no memory in common reads columns elsewhere than the plan of who wrote the folder.
            plan = self._planned_again(entry, reader, plan).plan
        with self._interrupt:
            installed = self._executor.install(entry.name, plan)
            self.plans[entry.name] = plan
            feed = Feed(self._monitor, self._executor, installed, reader, self._engine.past)
            if self._engine.past is not None:
                self._engine.past.remember(installed)
            self.maintained[entry.name] = Maintained(entry.name, entry.sql, installed, reader, feed)


def _is_ego(plan: Plan) -> bool:
    """Whether a plan has an overlay, of which the view's text says nothing."""
    return any(isinstance(node, Ego) for node in plan.nodes)
