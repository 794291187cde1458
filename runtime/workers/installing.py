"""What a coordinator has installed at its members, and what it places again when tables have other sizes."""

from collections.abc import Iterable, Set
from typing import Any, Final, Protocol

from kpg.runtime.data.table import Table
from kpg.runtime.errors import InternalError, NotSupportedError
from kpg.runtime.handles import Installation
from kpg.runtime.installed import Installed
from kpg.runtime.plan import AnyNode, Columns, Import, Loop, Plan, Source, Types, user
from kpg.runtime.storage.placed import Sharded
from kpg.runtime.worker import Worker
from kpg.runtime.workers.asking import Asking
from kpg.runtime.workers.far import FarTable, Landings
from kpg.runtime.workers.messages import MemberGoneError, UnsendableError
from kpg.runtime.workers.remote import Remote

ONCE: Final = "query "
"""What is installed for one answer is called so."""
FEW: Final = 2000
"""Rows of tables that are looked through here, for one answer, in less time than asking takes."""


class Placer(Protocol):
    """What makes of plans some for many workers."""

    def place(self, name: str, query: Plan) -> tuple[Plan, bool]:
        """The plan with exchanges, and whether each worker has all rows of its output."""

    def moving(self, rows: int, tables: Set[str]) -> set[str]:
        """What it would place otherwise once a step of so many rows is taken, of what reads these tables."""

    def forget(self, name: str) -> None:
        """Something is not installed any more."""

    def home(self, table: str) -> int:
        """The column by which a table is distributed, however small it is."""


class Installing(Asking, Worker):
    """The part of a coordinator that has plans run by its crew."""

    remote: dict[str, Remote]
    _placer: Placer
    _positions: int
    _input_texts: dict[str, tuple[int, ...]]
    _landings: Landings
    _sizes: dict[str, int]
    """Of each table that has changed the number of bits of its size then."""

    def texts_of(self, types: Types) -> tuple[int, ...]:
        """The columns whose words are others at members."""
        raise NotImplementedError

    # Rows that members have written

    def take_shards(self, table: Table, start: int, sharded: Sharded) -> None:
        """See ``Worker``: members read them, if they can."""
        if isinstance(table, FarTable) and table.takes_shards and self._landings.sees:
            self._landings.moor(table, start, sharded)
        else:
            super().take_shards(table, start, sharded)

    def replay_shards(self, epoch: int, table: str, start: int, sharded: Sharded) -> None:
        """See ``Worker``."""
        super().replay_shards(epoch, table, start, sharded)
        store = self.tables[table]
        if isinstance(store, FarTable) and store.blocks:
            self._landings.tell(table, store.blocks[-1], taken=False)

    def install(
        self, name: str, plan: Plan, *, isolated: bool = False, then: int | None = None, own: bool = False
    ) -> Any:
        """See ``executor.Executor``."""
        _refuse_what_is_not_there(plan, pending=isolated and then is None)
        if isolated or (name.startswith(ONCE) and self._is_small(plan)):
            return super().install(name, plan, isolated=True, then=then, own=own)
        if self.has_pending:
            raise InternalError("a view cannot be installed while changes are pending")
        self._be_there()
        made, held = self._placer.place(name, plan)
        for node in made.nodes:
            if isinstance(node, user.Input):
                self._input_texts[node.identity] = self.texts_of(node.types)
        types = Columns(made.nodes).types[made.output]
        remote = self.remote[name] = Remote(self, name, made, self.texts_of(types), len(types), held)
        remote.asked = plan
        try:
            with self._interrupt:
                self._put(remote)
        except UnsendableError:
            self._forget(name)
            if name.startswith(ONCE) and not any(isinstance(node, Import) for node in plan.nodes):
                return super().install(name, plan, isolated=True)
            raise
        except BaseException:
            self._forget(name)
            if self._gone is None:
                # Some members may have it: who meets nobody does not know that another has failed.
                self._positions = max(self.ask("drop", name), default=0)
            raise
        return remote

    def _put(self, remote: Remote) -> None:
        tables = (node.table for node in remote.plan.nodes if isinstance(node, Source))
        counts = {table: self.count(table) for table in tables}
        figures = self.ask("put", remote.name, remote.plan, self._positions, counts)
        remote.figures = [(stats, place) for stats, place, _ in figures]
        self._positions = max((last for _, _, last in figures), default=0)

    def _is_small(self, plan: Plan) -> bool:
        """Whether a query is answered here sooner than anybody is asked."""
        rows = 0
        for node in plan.nodes:
            if isinstance(node, Import | user.Input | user.Apply | user.UserReduce | user.Custom):
                return False
            if isinstance(node, Source):
                rows += self.count(node.table)
        return rows <= FEW

    def uninstall(self, installed: Installation) -> None:
        """Drop an installation, if it is still there."""
        if isinstance(installed, Installed):
            super().uninstall(installed)
        elif isinstance(installed, Remote) and self.remote.get(installed.name) is installed:
            self._forget(installed.name)
            self.inform("drop", installed.name)

    def _forget(self, name: str) -> None:
        del self.remote[name]
        self._placer.forget(name)

    # What is placed again

    def _resized(self, names: Iterable[str]) -> bool:
        """Whether one of these tables has twice or half the rows that it had when it was looked at last."""
        found = False
        for name in names:
            bits = self.count(name).bit_length()
            found = found or self._sizes.get(name) != bits
            self._sizes[name] = bits
        return found

    def _tell_rows(self, name: str) -> None:
        """Have members that see a table's rows see those of the last commit."""
        raise NotImplementedError

    def _place_again(self, rows: int, tables: Iterable[str]) -> None:
        """Have what the placer would place otherwise, once so many rows have come, computed anew so.

        They have not come yet: there is less to compute, and what comes with them is computed once. If a
        member ends meanwhile, those after it have what was to be had.
        """
        moving = self._placer.moving(rows, self.tables.keys())
        if not moving or self._gone is not None:
            return
        found = list[Remote]()
        for remote in self.remote.values():
            imported = {node.view for node in remote.asked.nodes if isinstance(node, Import)}
            if remote.name in moving or not imported.isdisjoint(one.name for one in found):
                found.append(remote)
        if self.inputs or any(remote.has_sinks for remote in found):
            return
        for remote in found:
            remote.plan, remote.held = self._placer.place(remote.name, remote.asked)
        self._patient = True
        try:
            for table in tables:
                self._tell_rows(table)
            for remote in reversed(found):
                self.ask("drop", remote.name)
            for remote in found:
                self._put(remote)
                if remote.observed:
                    self.ask("observe", remote.name, True)
        except MemberGoneError:
            pass  # those that are started next are told of the plans
        except Exception as error:
            self.crew.close()
            self._gone = MemberGoneError(f"workers could not go on with tables of other sizes: {error}")
        finally:
            self._patient = False


def _refuse_what_is_not_there(query: Plan, *, pending: bool) -> None:
    """NotSupportedError for what only a single worker can do."""
    what = None
    if pending and any(isinstance(node, Import) for node in query.nodes):
        what = "reading a collection of a dataflow in a transaction that has changed something"
    elif any(map(_is_users_operator, query.nodes)):
        what = "an operator of one's own (apply)"
    if what is not None:
        raise NotSupportedError(
            f"{what} with several workers is not supported", hint="open the database without workers="
        )


def _is_users_operator(node: AnyNode) -> bool:
    return isinstance(node, user.Custom) or (
        isinstance(node, Loop) and any(map(_is_users_operator, node.body))
    )
