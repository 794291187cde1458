"""The parts of the engine that keep views and indexes up to date with definitions, and that persist them.

``Following`` updates views and indexes when a table's columns or an object's name change. ``Kept`` connects
the engine with the folder (``Keeper``), and restores its state.
"""

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import Get, Project, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.entries import TableEntry, ViewEntry, get_of
from kpg.compiler.qualified_names import Resolved
from kpg.execute.queries.query_plan import Planned, plan_view_entry
from kpg.execute.queries.result_rows import Reader
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.handles import Installation
from kpg.runtime.plan import Ego, Plan
from kpg.runtime.types import Schema
from kpg.session.base_table import Table
from kpg.session.schemas import Keeping, Schemas
from kpg.session.subscriptions import Feed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kpg.session.channels import Channels
    from kpg.session.locks import RowLocks
    from kpg.session.notices import Notice


class Following(Schemas):
    """See the module. ``followed`` are views whose text says no more what they are."""

    followed: set[str]
    _indexes: dict[str, Installation]

    # Indexes

    def keep_index(self, name: str, plan: Plan) -> None:
        """Install an index."""
        with self._interrupt:
            label = f"index {name}"
            self._indexes[name] = self.executor.install(label, plan)
            self._plans[label] = plan

    def forget_index(self, name: str) -> None:
        """Give up an index that may be installed."""
        installed = self._indexes.pop(name, None)
        if installed is not None:
            del self._plans[f"index {name}"]
            self.executor.uninstall(installed)

    # Tables with other columns

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

    def _rename_overlay(self, view: str, was: str, name: str) -> None:
        """Have an ego view's plan follow a table, as its definition does not tell of its overlay."""
        before = self._plans.get(view)
        if before is not None and _is_ego(before):
            from kpg.compiler.ego import renamed  # lazy: the start does without it

            self._plans[view] = renamed(before, was, name)
            self.journal.note(undo=partial(self._plans.__setitem__, view, before))

    def is_overlay(self, name: str) -> bool:
        """Whether a view is kept by the plan of an ego view."""
        plan = self._plans.get(name)
        return plan is not None and _is_ego(plan)

    def _planned_again(self, entry: ViewEntry, reader: Reader, known: Plan | None) -> Planned:
        """The plan of a kept view by its present definition; that of an ego view is the one it has.

        Columns only come behind those that there are while a view uses a table.
        """
        planned = plan_view_entry(entry, reader, self.catalog, self.statistics)
        return planned if known is None or not _is_ego(known) else replace(planned, plan=known)

    def _keep_redefined(self, name: str) -> None:
        """As :meth:`keep_later`, of a view that means something else now: its plan is of no use any more."""
        before = self._plans.pop(name, None)
        if before is not None:
            self.journal.note(undo=partial(self._plans.__setitem__, name, before))
        self.keep_later(name)

    def replace_view(self, entry: ViewEntry, uses: frozenset[str], over: Sequence[ViewEntry]) -> None:
        """A view that is not kept takes the place of another, and ``over``, who use it, have new plans."""
        self.check_defining("CREATE VIEW")
        kept = [view.name for view in over if view.name in self.views]
        if kept and self.executor.has_pending:
            raise NotSupportedError(
                f'replacing view "{entry.name}" in a transaction that has changed rows is not supported '
                f"while {kept[0]} uses it"
            )
        with self._interrupt:
            for view in (entry, *over):  # those that others use stand first
                self.catalog.replace(view)
                self._uses[view.name] = self._uses.pop(view.name)
            self._uses[entry.name] = uses
        for name in kept:
            self._keep_redefined(name)

    def plan_again(self, views: Sequence[tuple[ViewEntry, frozenset[str]]]) -> None:
        """Views have other plans, which use what stands beside them."""
        kept = [view.name for view, _ in views if view.name in self.views]
        if kept and self.executor.has_pending:
            raise NotSupportedError(
                "replacing a function in a transaction that has changed rows is not supported "
                f"while {kept[0]} uses it"
            )
        with self._interrupt:
            for view, uses in views:
                self.catalog.replace(view)
                self._uses[view.name] = uses
        for name in kept:
            self._keep_redefined(name)

    def move(self, entry: ViewEntry) -> None:
        """A view has another definition, which is not that of its text."""
        self.catalog.replace(entry)
        self.leave_text(entry.name)
        if entry.name in self.views:
            self.keep_later(entry.name)

    def leave_text(self, name: str) -> None:
        """A view's text does not say any more what it is."""
        if name not in self.followed:
            self.followed.add(name)
            self.journal.note(undo=partial(self.followed.discard, name))

    def _forget(self, entry: ViewEntry) -> None:
        if entry.name in self.followed:
            self.followed.discard(entry.name)
            self.journal.note(undo=partial(self.followed.add, entry.name))
        super()._forget(entry)

    def keep_later(self, name: str) -> None:
        """Have the commit install a kept view by its present definition: until then it has an old plan."""
        entry = self.catalog.get(name)
        assert isinstance(entry, ViewEntry)
        self._keep_at_commit(name, Keeping(entry.materialized, partial(self._keep_anew, name)))

    def _keep_anew(self, name: str) -> None:
        """Install a kept view by its present definition."""
        entry = self.catalog.find(name)
        if not isinstance(entry, ViewEntry) or name not in self.views:
            return
        with self._interrupt:
            maintained = self.views.pop(name)
            planned = self._planned_again(entry, maintained.reader, self._plans.get(name))
            stays = planned.reader(self.executor.dictionary).types == maintained.reader.types
            left = maintained.feed.leave_installation() if stays else None
            maintained.live = stays
            self.executor.uninstall(maintained.installed)
            installed = self.executor.install(name, planned.plan)
            before = maintained if stays else None
            kept = self._keep(entry, planned, self._uses[name], installed, before)
            if stays:
                kept.feed.move(installed, kept.reader, left)

    # Other names

    def rename_column(self, name: str, schema: Schema) -> None:
        """A table's columns have other names, or may be NULL or not."""
        before = self._tables[name]
        self._tables[name] = Table(self.executor, name, schema, self.watching)
        self._tables[name].tally = before.tally
        old = self.executor.set_schema(name, schema)

        def undo() -> None:
            self._tables[name] = before
            self.executor.set_schema(name, old)

        self.journal.note(undo)
        for user in self.dependents(name):
            self.leave_text(user)

    def rename_table(self, old: TableEntry, name: str) -> None:
        """A table has another name; whatever refers to it follows."""
        was = old.name
        self.executor.rename_table(was, name)
        before = self._tables.pop(was)
        self._tables[name] = Table(self.executor, name, old.schema, self.watching)
        self._tables[name].tally = before.tally

        def undo() -> None:
            self.executor.rename_table(name, was)
            del self._tables[name]
            self._tables[was] = before

        self.journal.note(undo)
        self.catalog.remove(was)
        self.catalog.add(replace(old, name=name))
        self._rename_in_catalog(was, name)

        def moved(node: Rel) -> Rel:
            return replace(node, name=name) if isinstance(node, Get) and node.name == was else node

        for user in self.dependents(was):
            view = self.catalog.find(user)
            if isinstance(view, ViewEntry) and view.rel is not None:
                self.move(replace(view, definition=transform_up(view.rel, moved)))
                self._rename_overlay(user, was, name)
        for user, used in list(self._uses.items()):
            if was in used:
                self._uses[user] = used - {was} | {name}

    def _rename_in_catalog(self, was: str, name: str) -> None:
        catalog = self.catalog
        for entry in list(catalog):
            if isinstance(entry, TableEntry) and any(
                key.target == was for key in entry.constraints.foreign_keys
            ):
                keys = tuple(
                    replace(key, target=name) if key.target == was else key
                    for key in entry.constraints.foreign_keys
                )
                catalog.replace(replace(entry, constraints=replace(entry.constraints, foreign_keys=keys)))
        for sequence in list(catalog.sequences.values()):
            if sequence.owner is not None and sequence.owner[0] == was:
                owner = (name, sequence.owner[1])
                catalog.sequences[sequence.name.lower()] = replace(sequence, owner=owner)
        for index in list(catalog.indexes.values()):
            if index.table == was:
                catalog.indexes[index.name.lower()] = replace(index, table=name)
        if catalog.comments:
            from kpg.compiler.system.pg_catalog import move_comments  # lazy: the start does without it

            move_comments(catalog, was, name)

        for key, one in list(catalog.others.items()):
            if was.lower() in key[1:] and key[0] != "aggregate":
                del catalog.others[key]
                fields = {
                    part: name for part in ("table", "parent", "child") if getattr(one, part, "") == was
                }
                moved = (key[0], *(name.lower() if part == was.lower() else part for part in key[1:]))
                catalog.others[moved] = replace(one, **fields)
        catalog.rights.rename(("RELATION", was.lower()), ("RELATION", name.lower()))

    def rename_view(self, entry: ViewEntry, name: str) -> None:
        """A view that nothing uses has another name."""
        if self.executor.has_pending and entry.name in self.views:
            raise NotSupportedError(
                "renaming a materialized view in a transaction that has changed rows is not supported"
            )
        maintained, keeping = self.views.get(entry.name), self.keeping.get(entry.name)
        new, known = replace(entry, name=name), self._plans.get(entry.name)
        uses = self._uses[entry.name]
        self.catalog.remove(entry.name)
        self.catalog.rights.rename(("RELATION", entry.name.lower()), ("RELATION", name.lower()))
        if self.catalog.comments:
            from kpg.compiler.system.pg_catalog import move_comments  # lazy: the start does without it

            move_comments(self.catalog, entry.name, name)
        self._forget(entry)
        if keeping is not None and maintained is None:
            new = replace(new, materialized=keeping.materialized)
            self.create_later(new, partial(self._plan_definition, new), uses, replace_old=False)
        elif maintained is None:
            self.create_view(new, uses, replace_old=False)
        else:
            planned = partial(self._planned_again, new, maintained.reader, known)
            if self.transactions.idle:
                self.create_materialized_view(new, planned(), uses, replace_old=False)
            else:
                self.create_later(new, planned, uses, replace_old=False)

    def rename_expanded(self, entry: ViewEntry, name: str) -> None:
        """A view that is expanded where it is used has another name; views over it follow."""
        was, catalog = entry.name, self.catalog
        catalog.remove(was)
        catalog.add(replace(entry, name=name))
        self._rename_in_catalog(was, name)
        for user in list(catalog):
            if isinstance(user, ViewEntry) and user.below == was:
                catalog.replace(replace(user, below=name))
        uses = {
            Resolved(name) if view == was else view: used - {was} | {name} if was in used else used
            for view, used in self._uses.items()
        }
        self._uses.clear()  # in place, in the same order
        self._uses.update(uses)
        if was in self.followed:
            self.followed.discard(was)
            self.journal.note(undo=partial(self.followed.add, was))
            self.leave_text(name)

    def rename_view_column(self, name: str, place: int, new: str) -> None:
        """Readers of a kept view see another name."""
        maintained = self.views[name]
        before = maintained.reader
        names = list(before.names)
        names[place] = new
        maintained.reader = replace(before, names=tuple(names))
        self.journal.note(undo=partial(setattr, maintained, "reader", before))


def _is_ego(plan: Plan) -> bool:
    """Whether a plan has an overlay, of which the view's text says nothing."""
    return any(isinstance(node, Ego) for node in plan.nodes)


class Keeper(Protocol):
    """Who keeps what is committed in a folder."""

    moment: tuple[int, int]
    """The epoch that was recorded last, and when that was."""

    @property
    def where(self) -> str:
        """The folder."""

    @property
    def refuses(self) -> str | None:
        """Why no more changes are taken, if so."""

    def hold(self) -> bool:
        """Have all steps be one commit from now on; whether they were not already."""

    def release(self) -> None:
        """Keep that commit."""

    def tend(self) -> None:
        """Between commits: do what is to be done now and then."""

    def checkpoint(self) -> None:
        """Have opening begin with what there is now."""

    def close(self) -> None:
        """Keep what there is, and let others have the folder."""


class Kept(Following):
    """See the module."""

    keeper: Keeper | None
    notices: "list[Notice]"
    """What statements have to say beside their results, until somebody takes it."""
    at_commit: dict[str, Callable[[], None]]
    """The ON COMMIT actions of temporary tables, by the tables' names."""

    _closing: set[str]

    def settle(self, *, committing: bool) -> None:
        """Have foreign keys hold after changes: all of them when committing, else those not deferred."""
        if committing and self.at_commit:
            mine = f"{self.catalog.temporary}."
            for name, act in list(self.at_commit.items()):
                if name.startswith(mine):
                    act()
        if "references" in self.__dict__:
            self.references.settle(committing=committing)
            if committing:
                self.references.defer(set(), deferred=False)
        if committing and self.keeping:
            self.check_views()

    def check_views(self) -> None:
        """Compute the views that the commit is to install: an error refuses the commit."""
        raise NotImplementedError

    def step(self) -> None:
        """Take all pending changes through everything."""
        raise NotImplementedError

    def close_epochs(
        self, table: str, counts: Sequence[int], gone: "NDArray[np.int64] | None" = None
    ) -> None:
        """End an epoch for each count of rows that a table was given last, and row that is gone from it.

        Nothing else is pending.
        """
        self._closing.add(table)
        self.executor.close_epochs(table, counts, gone)

    @cached_property
    def channels(self) -> "Channels":
        """What sessions tell each other by."""
        from kpg.session.channels import Channels  # lazy: the start does without it

        return Channels()

    @cached_property
    def locks(self) -> "RowLocks":
        """The locks of sessions."""
        from kpg.session.locks import RowLocks  # lazy: the start does without it

        return RowLocks(self)

    def keep(self, undo: Callable[[], object] = lambda: None) -> None:
        """Have what has been defined outside of statements be there when the database is opened again.

        If that fails, ``undo`` has it be undone.
        """
        if self.keeper is not None and self.transactions.idle:
            try:
                self.step()
            except BaseException:
                undo()
                raise

    def refuse_to_keep(self, what: str, why: str) -> None:
        """Raise NotSupportedError if the database is in a folder."""
        if self.keeper is not None:
            raise NotSupportedError(
                f"{what} in a durable database is not supported: {why}",
                hint="make it in a database in memory, kpg.connect(), or say it in SQL or Datalog",
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have what the block does be one commit. In a folder Ctrl-C waits for a safe point, or the end."""
        if self.keeper is None:
            yield
            return
        with self._interrupt:
            outermost = self.keeper.hold()
            try:
                yield
            finally:
                if outermost:
                    self.keeper.release()

    def used(self) -> frozenset[str]:
        """Everything that something uses."""
        return frozenset().union(*self._uses.values())

    def used_by(self, name: str) -> frozenset[str]:
        """What a view uses."""
        return self._uses.get(name, frozenset())

    def plan_of(self, name: str) -> Plan | None:
        """The plan by which a view is kept."""
        return self._plans.get(name)

    def adopt_table(self, entry: TableEntry) -> None:
        """Have a table that has its rows again be as it was."""
        self._add_keys(entry.name, entry.schema, entry.constraints)
        self._tables[entry.name] = Table(self.executor, entry.name, entry.schema, self.watching)

    def restore_view(
        self, entry: ViewEntry, uses: frozenset[str], kept: tuple[Any, ...] | None, *, followed: bool
    ) -> None:
        """Have a view be as it was; ``kept`` is its plan, and its columns' names, types and order."""
        if kept is not None and entry.rel is not None and not entry.materialized:
            # Records of earlier versions say that one made in a transaction is not materialized.
            hidden = len(rel_types(entry.rel)) > len(entry.schema.columns)
            entry = replace(entry, materialized=not hidden)
        self.catalog.add(entry)
        self._uses[entry.name] = uses
        if followed:
            self.followed.add(entry.name)
        if kept is None:
            return
        assert entry.rel is not None
        plan, names, types, order = kept or (None, entry.schema.names, rel_types(entry.rel), entry.order)
        reader = Reader(names, types, order, self.executor.dictionary)
        if plan is None or self.statistics.early:
            # Who has no memory in common reads columns elsewhere than the plan of who wrote the folder.
            plan = self._planned_again(entry, reader, plan).plan
        with self._interrupt:
            installed = self.executor.install(entry.name, plan)
            self._plans[entry.name] = plan
            feed = Feed(self.monitor, self.executor, installed, reader, self.past)
            if self.past is not None:
                self.past.remember(installed)
            self.views[entry.name] = Maintained(entry.name, entry.sql, installed, reader, feed)


def importable(function: Any) -> str | None:
    """Where another process finds a function, ``module:name``; None if it is nowhere."""
    if not isinstance(function, types.FunctionType | types.BuiltinFunctionType | type):
        function = type(function) if hasattr(function, "initialize") else None
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    if module is None or module == "__main__" or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None
