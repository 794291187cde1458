"""Collections defined by themselves, from nothing."""

from collections.abc import Callable

from kpg.collections.collection import Collection
from kpg.collections.rows import aligned
from kpg.collections.scope import LoopScope


def recursive(model: Collection, body: Callable[[Collection, LoopScope], Collection]) -> Collection:
    """The collection that ``c = body(c, loop)`` comes to from nothing, with the columns of ``model``.

    Unlike ``Collection.iterate`` nothing is put in before the first round: ``body`` adds what it starts from,
    in every round, so that a fact needs support in each.
    """
    flow, rows = model._flow, model._rows
    flags = rows.flags
    while True:
        with flow.scope() as loop:
            variable = loop.declare(None, rows.names, rows.types, flags)
            result = aligned(body(variable, loop)._rows, rows, "the body of the recursion")
            wider = tuple(a or b for a, b in zip(flags, result.flags, strict=True))
            whole = Collection(flow, result)
            variable.set(variable if wider != flags else whole)
            if wider == flags:
                return loop.leave(whole)
        flags = wider
