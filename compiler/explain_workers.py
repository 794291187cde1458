"""EXPLAIN where many workers run a plan: where rows are, what is sent, and what need not be."""

from collections.abc import Iterator, Sequence

from kpg.compiler.catalog import Catalog
from kpg.compiler.explain import sent
from kpg.compiler.physical.placement import Placed, Placement, Tables, place
from kpg.runtime import plan
from kpg.runtime.plan import AnyNode, Plan, Ref
from kpg.runtime.records import dataclass

MOST_COLUMNS = 32
"""The columns of a table that are tried."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Tables of which one is distributed by another column, or, with None, replicated."""

    tables: Tables
    table: str
    column: int | None

    def home(self, table: str) -> int | None:
        """See ``placement.Tables``."""
        return self.column if table == self.table else self.tables.home(table)

    def owner(self, table: str) -> int | None:
        """See ``placement.Tables``."""
        now = self.tables.owner(table)
        return now if now is None or table != self.table or self.column is None else self.column

    def view(self, name: str) -> Placement:
        """See ``placement.Tables``."""
        return self.tables.view(name)


def explain_placed(query: Plan, catalog: Catalog, tables: Tables) -> tuple[Placed, tuple[str, ...]]:
    """The plan with its exchanges; what changes of inputs send, and what a table placed otherwise saves."""
    placed = place(query, tables)
    return placed, (*_sent_for_changes(placed), *_savings(query, placed, catalog, tables))


def exchanges(nodes: Sequence[AnyNode], prefix: str = "%") -> Iterator[tuple[str, plan.Exchange]]:
    """The exchanges that send something, those of loops' bodies too, by their names in EXPLAIN."""
    for ref, node in enumerate(nodes):
        if isinstance(node, plan.Exchange) and not node.held:
            yield f"{prefix}{ref}", node
        elif isinstance(node, plan.Loop):
            yield from exchanges(node.body, f"{prefix}{ref}.")


def _sent_for_changes(placed: Placed) -> Iterator[str]:
    nodes = placed.plan.nodes
    for start, node in enumerate(nodes):
        if not isinstance(node, plan.Source | plan.Import):
            continue
        reached = _reached(nodes, start)
        met = [f"at {name} {sent(one)}" for name, one in exchanges(nodes) if _top(name) in reached]
        name = node.table if isinstance(node, plan.Source) else node.view
        yield f"sent for a change of {name}: {'; '.join(met) or 'nothing'}"


def _top(name: str) -> Ref:
    """The node of the outermost list in which an exchange is."""
    return int(name[1:].partition(".")[0])


def _reached(nodes: Sequence[AnyNode], start: Ref) -> set[Ref]:
    """What a change of a node goes through: of joins the paths on which it sets out."""
    found = {start}
    for ref, node in enumerate(nodes):
        reads = (node.input,) if isinstance(node, plan.HalfJoin) else plan.inputs(node)
        if not found.isdisjoint(reads):
            found.add(ref)
    return found


def _savings(query: Plan, placed: Placed, catalog: Catalog, tables: Tables) -> Iterator[str]:
    """For each table how it would be placed to save most exchanges, if that saves any."""
    now = len(list(exchanges(placed.plan.nodes)))
    for table in dict.fromkeys(node.table for node in query.nodes if isinstance(node, plan.Source)):
        entry = catalog.find(table)
        if entry is None or not now:
            continue
        names = entry.schema.names[:MOST_COLUMNS]
        ways = [(f"distributed by ({name})", column) for column, name in enumerate(names)]
        counts = [
            len(list(exchanges(place(query, Otherwise(tables, table, column)).plan.nodes)))
            for column in (*range(len(names)), None)
        ]
        best = min(range(len(counts)), key=counts.__getitem__)
        if counts[best] < now:
            how = "replicated" if best == len(ways) else ways[best][0]
            yield f"with {table} {how}: {counts[best]} exchange{'s' * (counts[best] != 1)} instead of {now}"
