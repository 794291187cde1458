"""Ego views (``db.ego``): handles on ego views, and user-defined aggregates with EAGr's interface.

A handle reads the view by node or by several nodes, like any view, and subscribes to it.

EAGr's interface is ``initialize()``, ``update(state, old, new)``, ``merge`` and ``finalize``. Here
``update(state, value)`` adds one value. The optional ``subtract(state, value)`` removes one. ``idempotent``
states that repeated values do not matter.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.api.view import MaintainedView, View
from kpg.compiler.ego import find_builtin_aggregate
from kpg.compiler.sql.parse.statements import Select
from kpg.execute.definitions import ego_views, python_functions
from kpg.execute.queries.query_plan import explain_export, plan
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.convert.python_values import to_list
from kpg.runtime.errors import InterfaceError
from kpg.runtime.handles import OverlayInfo
from kpg.runtime.monitor import synchronized
from kpg.runtime.types import ColumnDef, Kind, Schema
from kpg.session.engine import Engine
from kpg.session.notification_queue import Handler
from kpg.session.subscriptions import Change, Subscription

Words = NDArray[np.int64]
INTEGER_KINDS = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})


@synchronized()
class EgoView(View):
    """An ego view: a row (node, value) per reader. Reads return the state after the last commit."""

    def __init__(self, engine: Engine, maintained: MaintainedView, check: Callable[[], object]) -> None:
        View.__init__(self, maintained, engine.monitor, lambda: (check(), None)[1], self._explain_ego)
        self._engine = engine
        types = maintained.reader.visible_types
        self._node = Schema((ColumnDef("node", types[0]),))
        self._empty = _empty_value(maintained.sql)
        element = types[1].parts[0] if types[1].kind is Kind.ARRAY else None
        if element is None or not (
            element.kind in INTEGER_KINDS or (element.is_text and not element.is_padded)
        ):
            element = None
        self._element = element
        """Element type of a list value, if its elements decode like column values."""

    def read(self, node: Any) -> Any:
        """Return the aggregate of a node's neighbourhood; without rows None, or 0 for a count."""
        return self.read_many((node,))[0]

    def read_many(self, nodes: "Sequence[Any] | NDArray[Any]") -> list[Any]:
        """Return the aggregates of many nodes; see :meth:`read`."""
        self._check()
        self._engine.refresh_clock()
        words = self._words(nodes)
        if not words.shape[0]:
            return []
        if self._element is not None:
            listed = self._maintained.installation.arrays_of(words)
            if listed is not None:
                return self._split_lists(*listed)
        has_value, rows = self._maintained.installation.rows_of(words)
        kept = np.ascontiguousarray(rows[:, has_value])
        found = self._maintained.reader.values(kept, 1)
        if has_value.all():
            return found
        result = [self._empty] * words.shape[0]
        for place, value in zip(np.flatnonzero(has_value).tolist(), found, strict=True):
            result[place] = value
        return result

    def _split_lists(self, sizes: Words, elements: Words) -> list[Any]:
        """Return a list of each node's elements."""
        assert self._element is not None
        values = to_list(elements, self._element, self._engine.executor.dictionary)
        ends = np.cumsum(sizes).tolist()
        return [
            values[end - size : end] if size else self._empty
            for end, size in zip(ends, sizes.tolist(), strict=True)
        ]

    def _words(self, nodes: "Sequence[Any] | NDArray[Any]") -> Words:
        if self._node.columns[0].type.kind in INTEGER_KINDS and isinstance(nodes, np.ndarray):
            return np.ascontiguousarray(nodes, np.int64)
        return np.ascontiguousarray(from_rows(list(nodes), self._node, self._engine.executor.dictionary)[0])

    def subscribe(  # type: ignore[override]
        self,
        callback: Callable[[list[Change]], object],
        *,
        nodes: "Iterable[Any] | None" = None,
        on_error: Handler | None = None,
    ) -> Subscription:
        """Call ``callback`` with the changes ``((node, value), epoch, diff)`` of each commit.

        With ``nodes``, only with the changes of these. Followed nodes are pushed while the subscription
        lasts. ``on_error`` receives the exceptions of the callback; see :meth:`View.subscribe`.
        """
        if nodes is None:
            return View.subscribe(self, callback, on_error=on_error)
        self._check()
        listed = list(nodes)
        chosen = frozenset(listed)

        def filter_changes(changes: list[Change]) -> None:
            mine = [change for change in changes if change[0][0] in chosen]
            if mine:
                callback(mine)

        return self._maintained.feed.subscribe(filter_changes, np.unique(self._words(listed)), on_error)

    @property
    def overlay(self) -> OverlayInfo:
        """The overlay: sizes, levels, sharing, push and pull decisions, and the expected cost."""
        self._check()
        info = self._maintained.installation.overlay()
        assert info is not None
        return info

    def decide(self) -> None:
        """Decide again which nodes are pushed, by the observed reads and writes."""
        self._check()
        self._maintained.installation.decide_pushes()

    def _explain_ego(self, stage: str) -> str:
        engine, plan = self._engine, self._maintained.plan or self._engine.views.plan_of(self.name)
        assert plan is not None
        text = explain_export(self.name, plan, stage, engine.catalog, engine.statistics).text()
        return (
            text + "\n" + "\n".join(describe_overlay(self.overlay)) if stage.lower() == "physical" else text
        )


def _empty_value(meaning: str) -> Any:
    """Return the aggregate's value of no rows."""
    _, _, rest = meaning.partition("SELECT p.reader AS node, ")
    function = find_builtin_aggregate(rest.partition(" AS value FROM (")[0])
    return None if function is None else function.empty


def describe_overlay(info: OverlayInfo) -> list[str]:
    """Return the lines of EXPLAIN that describe an overlay."""
    lines = [
        f"overlay by {info.construction}: {info.writers} writers, {info.readers} readers,"
        f" {info.partials} partial aggregates; {info.edges} edges in the place of"
        f" {info.direct} (sharing index {info.sharing:.3f})",
        f"mean depth {info.depth:.2f}; built in {info.build_seconds:.2f} s; {info.bytes} bytes;"
        f" {info.patches} edges patched since",
        f"{info.pushed} pushed, {info.pulled} pulled, decided by {info.decided}"
        f" ({info.left} nodes not by pruning); {info.flips} changed since by what was observed",
        f"expected cost: {info.write:.3f} us a write, {info.read:.3f} us a read",
    ]
    lines += [
        f"  level {level}: {pushed} pushed, {pulled} pulled, {edges} edges in"
        for level, (pushed, pulled, edges) in enumerate(info.levels)
    ]
    return lines


class AggregateAdapter:
    """Adapts an aggregate with EAGr's methods to those of ``create_function``."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.initialize = own.initialize
        self.finish = own.finalize
        self.merge = self._merge
        self.idempotent = bool(getattr(own, "idempotent", False))
        if hasattr(own, "subtract"):
            self.subtract = self._subtract

    def add(self, state: Any, value: Any, times: int = 1) -> Any:
        """Add a value ``times`` times."""
        for _ in range(times):
            state = self._own.update(state, value)
        return state

    def _subtract(self, state: Any, value: Any, times: int = 1) -> Any:
        for _ in range(times):
            state = self._own.subtract(state, value)
        return state

    def _merge(self, state: Any, other: Any) -> Any:
        return self._own.merge(state, copy.deepcopy(other))


def adapt_aggregate(own: Any) -> Any:
    """Return an aggregate object in the form that ``create_function`` takes."""
    if hasattr(own, "add") and hasattr(own, "finish"):
        return own
    missing = [
        name
        for name in ("initialize", "update", "merge", "finalize")
        if not callable(getattr(own, name, None))
    ]
    if missing:
        raise InterfaceError(
            f"an aggregate of an ego view needs the method {missing[0]}()",
            hint="give an object with initialize, update, merge and finalize, or the name of an aggregate",
        )
    return AggregateAdapter(own)


def create_view(
    engine: Engine,
    check: Callable[[], object],
    name: str,
    aggregate: Any,
    readers: "str | Iterable[Any] | None",
    continuous: "str | Iterable[Any] | None",
    returns: Any,
    **given: Any,
) -> "EgoView":
    """Create an ego view; see :meth:`kpg.api.database.Database.ego`."""
    restore = python_functions.make_restorer(engine)
    try:
        if not isinstance(aggregate, str):
            aggregate = create_aggregate(engine, name, given["writes"], aggregate, returns)
        chosen, pushed = (
            ego_views.membership_condition(nodes)
            if nodes is not None and not isinstance(nodes, str)
            else nodes
            for nodes in (readers, continuous)
        )
        options = ego_views.EgoViewOptions(
            name=name, aggregate=aggregate, readers=chosen, continuous=pushed, **given
        )
        maintained = ego_views.create_from_options(engine, options)
    except BaseException:
        restore()
        raise
    return EgoView(engine, maintained, check)


def create_aggregate(engine: Engine, name: str, writes: str, aggregate: Any, returns: Any) -> str:
    """Register an aggregate with EAGr's methods or those of ``create_function``; return its call."""
    given = aggregate() if isinstance(aggregate, type) else aggregate
    if ego_views.is_query(writes):
        select = ego_views.parse_single(writes)
        assert isinstance(select, Select)
        types = plan(select, engine.catalog, engine.statistics).schema.types
    else:
        types = engine.catalog.get(writes).schema.types
    own = f"{name}_aggregate"
    result = types[2] if returns is None and not hasattr(given, "returns") else returns or given.returns
    python_functions.create(
        engine, own, adapt_aggregate(given), [types[2]], result, columns=False, nulls=False
    )
    return f"{own}(value)"
