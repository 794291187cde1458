"""``db.ego``, and users' aggregates by EAGr's interface, as the database's records have them.

EAGr's has ``initialize()``, ``update(state, old, new)`` for an input that was one thing and is another,
``merge`` and ``finalize``. Here ``update(state, value)`` takes one value in, and ``subtract(state, value)``,
if there is one, takes it back; ``idempotent`` is true if it does not matter how often a value comes.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from kpg.compiler.sql.parse.statements import Select
from kpg.ddl import egos, functions
from kpg.ddl.ego_view import EgoView
from kpg.engine.engine import Engine
from kpg.queries.planning import plan
from kpg.runtime.errors import InterfaceError


class Adapted:
    """An aggregate of values, by the methods that the database calls."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.initialize = own.initialize
        self.finish = own.finalize
        self.merge = self._merge
        self.idempotent = bool(getattr(own, "idempotent", False))
        if hasattr(own, "subtract"):
            self.subtract = self._subtract

    def add(self, state: Any, value: Any, times: int = 1) -> Any:
        """Take a value in, as often as it is there."""
        for _ in range(times):
            state = self._own.update(state, value)
        return state

    def _subtract(self, state: Any, value: Any, times: int = 1) -> Any:
        for _ in range(times):
            state = self._own.subtract(state, value)
        return state

    def _merge(self, state: Any, other: Any) -> Any:
        return self._own.merge(state, copy.deepcopy(other))


def adapted(own: Any) -> Any:
    """The object as ``create_function`` takes one."""
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
    return Adapted(own)


def make(
    engine: Engine,
    check: Callable[[], object],
    name: str,
    aggregate: Any,
    readers: "str | Iterable[Any] | None",
    continuous: "str | Iterable[Any] | None",
    returns: Any,
    **given: Any,
) -> "EgoView":
    """As :meth:`kpg.database.Database.ego`."""
    put_back = functions.known(engine)
    try:
        if not isinstance(aggregate, str):
            aggregate = own_aggregate(engine, name, given["writes"], aggregate, returns)
        chosen, pushed = (
            egos.listed(nodes) if nodes is not None and not isinstance(nodes, str) else nodes
            for nodes in (readers, continuous)
        )
        asked = egos.Asked(name=name, aggregate=aggregate, readers=chosen, continuous=pushed, **given)
        maintained = egos.create(engine, asked)
    except BaseException:
        put_back()
        raise
    return EgoView(engine, maintained, check)


def own_aggregate(engine: Engine, name: str, writes: str, aggregate: Any, returns: Any) -> str:
    """Make an aggregate of the user's, by EAGr's interface or as ``create_function`` takes it."""
    given = aggregate() if isinstance(aggregate, type) else aggregate
    if egos.is_query(writes):
        select = egos.single(writes)
        assert isinstance(select, Select)
        types = plan(select, engine.catalog, engine.statistics).schema.types
    else:
        types = engine.catalog.get(writes).schema.types
    own = f"{name}_aggregate"
    result = types[2] if returns is None and not hasattr(given, "returns") else returns or given.returns
    functions.create(engine, own, adapted(given), [types[2]], result, columns=False, nulls=False)
    return f"{own}(value)"
