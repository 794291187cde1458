"""Placement of a plan's rows on workers, and the exchanges that move them.

Every worker runs every node. On one machine, each worker has all rows of the base tables. On
several machines, each has the rows that it owns (``Tables.owner_column``). A stream is
*replicated* if every worker has all its rows, as for small tables and constants. It is
*partitioned* if each row is at exactly one worker. An operator with state per group needs the
rows of a group at one worker, and a lookup needs a row where its match is. An exchange is added
where that is not the case. Where rows are replicated, each worker keeps its share and nothing is
sent.

:class:`LookupVotes` counts the columns by which rows are looked up, and decides the placement
where there is a choice. If only its owner has a row, the row's columns must be read there, before
the row or its rowid is sent. Elsewhere a column would be NULL. Plans built under
``Statistics.early_materialization`` satisfy this, and :func:`check_early_materialization`
verifies it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol, assert_never

from kpg.compiler.algebra.scalars import never_fails
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode, Combine, Exchange, Mfp, Plan, Ref, Route, user
from kpg.runtime.plan.nodes import Exchange as NodesExchange
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, walk


class LookupVotes:
    """Votes for the columns by which nodes of a plan or loop body are looked up.

    ``bodies`` are the votes in the bodies of loops.
    """

    def __init__(
        self, nodes: Sequence[AnyNode], outer: "LookupVotes | None" = None, results: tuple[Ref, ...] = ()
    ) -> None:
        """Count the lookups of ``nodes``.

        For a loop's body, ``results`` are the results of the loop.
        """
        self.nodes = nodes
        self.bodies: dict[Ref, LookupVotes] = {}
        self._outer = outer
        self._results = results
        self._votes: dict[Ref, Counter[int]] = defaultdict(Counter)
        self._seen: set[tuple[Ref, int]] = set()
        for ref, node in enumerate(nodes):
            if isinstance(node, plan.Loop):
                self.bodies[ref] = LookupVotes(node.body, self, node.results)
        if outer is None:
            self._count()

    def _count(self) -> None:
        """Count the votes of all bodies, once they exist: a lookup in one body may reach nodes of another."""
        for node in self.nodes:
            if isinstance(node, plan.DeltaJoin):
                for path in plan.paths_of(self.nodes, node):
                    self._count_lookups(path)
        for body in self.bodies.values():
            body._count()

    def best_column(self, ref: Ref) -> int | None:
        """Return the column by which a node's rows are looked up most often, or None."""
        votes = self._votes.get(ref)
        return min(votes, key=lambda column: (-votes[column], column)) if votes else None

    def _count_lookups(self, path: plan.DeltaPath) -> None:
        mfp = path.delta.mfp
        for place, half in enumerate(path.half_joins):
            if half.key:
                self._vote(half.arrangement, 0)
                first = mfp.outputs[half.key[0]] if place == 0 else None
                if isinstance(first, Column):
                    self._vote(path.delta.input, first.index)

    def _vote(self, ref: Ref, column: int) -> None:
        self._votes[ref][column] += 1
        if (ref, column) in self._seen:
            return
        self._seen.add((ref, column))
        match self.nodes[ref]:
            case plan.Linear(input=below, mfp=mfp):
                output = mfp.outputs[column]
                if isinstance(output, Column):
                    self._vote(below, output.index)
            case (
                plan.Arrange(input=below)
                | plan.Negate(input=below)
                | plan.Distinct(input=below)
                | plan.Threshold(input=below)
            ):
                self._vote(below, column)
            case plan.Reduce(input=below, key=key) | plan.TopK(input=below, group=key):
                if column < key:
                    self._vote(below, column)
            case plan.Concat(inputs=inputs):
                for below in inputs:
                    self._vote(below, column)
            case plan.Variable(index=index):
                self._vote(self._results[index], column)
            case plan.Enter(input=below):
                if self._outer is not None:
                    self._outer._vote(below, column)
            case plan.Leave(loop=loop, result=result):
                self.bodies[loop]._vote_result(result, column)
            case (
                plan.Source()
                | plan.Import()
                | plan.Constant()
                | plan.Delta()
                | plan.HalfJoin()
                | plan.DeltaJoin()
                | plan.RangeJoin()
                | plan.Expand()
                | plan.BasicReduce()
                | plan.Window()
                | plan.Fold()
                | plan.Single()
                | plan.Ego()
                | plan.Loop()
                | user.Input()
                | user.Apply()
                | user.UserReduce()
                | user.Custom()
                | user.Sink()
                | user.EnterAt()
                | NodesExchange()
            ):
                pass  # its inputs have no such column, or are not placed
            case never:
                assert_never(never)

    def _vote_result(self, result: int, column: int) -> None:
        self._vote(self._results[result], column)


PartitionKey = int | tuple[str, int, int]
"""A column, or a table's column fetched by a rowid column: (table, table column, rowid column)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of a stream's rows: replicated, at worker 0, or partitioned.

    Partitioned rows with equal words of any key in ``by`` are at the same worker.
    """

    replicated: bool = False
    large: bool = False
    """Whether the replicated rows are of a large table.

    Each worker keeps state only for its share of them.
    """
    by: frozenset[PartitionKey] = frozenset()
    at_worker_0: bool = False
    """Whether all rows are at worker 0."""
    stable: bool = False
    """Whether a row is deleted at the worker where it was inserted, so that no worker has negative rows."""

    def __str__(self) -> str:
        if self.replicated:
            return "held by all"
        if self.at_worker_0:
            return "at worker 0"
        columns = sorted(key for key in self.by if isinstance(key, int))
        return f"parted by #{columns[0]}" if columns else "parted"


REPLICATED: Final = Placement(replicated=True)
LARGE: Final = Placement(replicated=True, large=True)
PARTITIONED: Final = Placement()
STABLE: Final = Placement(stable=True)
WORKER_0: Final = Placement(at_worker_0=True)


class Tables(Protocol):
    """Distribution of the tables and views that a plan reads."""

    def partition_column(self, table: str) -> int | None:
        """Return the column by which state over a table is partitioned, or None if all workers keep all of
        it.
        """

    def owner_column(self, table: str) -> int | None:
        """Return the column whose words decide the owner of a row, or None if all workers have all rows."""

    def view_placement(self, name: str) -> Placement:
        """Return the placement of a view's rows."""


class TableDistribution(Protocol):
    """Distribution of tables over workers."""

    @property
    def is_sharded(self) -> bool:
        """Whether only its owner has a row."""

    def tables_of(self, query: Plan) -> Tables:
        """Return the distribution of the tables that a plan reads, by their current sizes.

        A table that is small beside the others is replicated.
        """


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """A plan for many workers, with the placement of each node.

    ``bodies`` has those of loop bodies, by the position of the loop.
    """

    plan: Plan
    placements: tuple[Placement, ...]
    bodies: Mapping[Ref, tuple[Placement, ...]]

    @property
    def output(self) -> Placement:
        """Placement of the output's rows."""
        return self.placements[self.plan.output]


def has_sink(node: AnyNode) -> bool:
    """Return whether the node is a sink or contains one."""
    if isinstance(node, plan.Loop):
        return any(map(has_sink, node.body))
    return isinstance(node, user.Sink)


def select_needed(
    level: "Level", outputs: Iterable[Ref]
) -> tuple[tuple[AnyNode, ...], tuple[Placement, ...], dict[Ref, tuple[Placement, ...]], dict[Ref, Ref]]:
    """Return the nodes that outputs and sinks depend on, without placements that turned out unused.

    Returns:
      The nodes, their placements, those of loop bodies, and the new position of each kept node.
    """
    listeners = [ref for ref, node in enumerate(level.new_nodes) if has_sink(node)]
    reached, stack = set[Ref](), [*outputs, *listeners]
    while stack:
        ref = stack.pop()
        if ref not in reached:
            reached.add(ref)
            stack += plan.inputs(level.new_nodes[ref])
    kept = sorted(reached)
    at = {ref: place for place, ref in enumerate(kept)}
    nodes = tuple(plan.renumber_inputs(level.new_nodes[ref], at.__getitem__) for ref in kept)
    places = tuple(level.placements[ref] for ref in kept)
    bodies = {at[ref]: inner for ref, inner in level.bodies.items() if ref in at}
    return nodes, places, bodies, at


@dataclass(slots=True)
class Level:
    """The nodes of a plan or loop body, and the new list of placed nodes with exchanges between them.

    ``nodes`` is the old list. ``new_nodes`` is the new list, with ``placements`` for its nodes.
    Parameters ``ref`` are positions in the old list, and ``new`` in the new one.
    """

    nodes: Sequence[AnyNode]
    tables: Tables
    votes: LookupVotes
    place_node: "Callable[[Level, Ref, AnyNode], Ref]"
    """Adds a node to the new list by the rule for its kind, and returns its position."""
    outer: "Level | None" = None
    variables: Sequence[Placement] = ()
    new_nodes: list[AnyNode] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    bodies: dict[Ref, tuple[Placement, ...]] = field(default_factory=dict)
    loops: dict[Ref, tuple[Ref, tuple[Placement, ...]]] = field(default_factory=dict)
    new_refs: dict[Ref, Ref] = field(default_factory=dict)
    refs_by_node: dict[AnyNode, Ref] = field(default_factory=dict)
    loop: Ref | None = None
    """Position of the loop whose body this is, in the old list of ``outer``."""
    replicates_inputs: bool = False
    """Whether each worker has all rows that enter the loop from outside."""
    _columns: plan.Columns | None = None
    _fails: bool | None = None

    def add(self, node: AnyNode, placement: Placement) -> Ref:
        """Add a node to the new list, unless an equal one exists, and return its position."""
        if not isinstance(node, plan.Loop | user.Sink | user.Custom) and node in self.refs_by_node:
            return self.refs_by_node[node]
        self.new_nodes.append(node)
        self.placements.append(placement)
        self.refs_by_node[node] = len(self.new_nodes) - 1
        return len(self.new_nodes) - 1

    def width(self, ref: Ref) -> int:
        """Return the number of columns of a node of the old list."""
        return len(self.columns.types[ref])

    @property
    def columns(self) -> plan.Columns:
        """Column types of the nodes of the old list."""
        if self._columns is None:
            if self.outer is None or self.loop is None:
                self._columns = plan.Columns(self.nodes)
            else:
                self._columns = self.outer.columns.bodies[self.loop]
        return self._columns

    @property
    def can_fail(self) -> bool:
        """Whether a row can fail in this level or an enclosing one."""
        if self._fails is None:
            inside = any(map(_can_fail, self.nodes))
            self._fails = inside or (self.outer is not None and self.outer.can_fail)
        return self._fails

    def has_negation(self, ref: Ref) -> bool:
        """Return whether a node of the old list may contain negated rows of another node."""
        node = self.nodes[ref]
        if isinstance(node, plan.Linear):
            return self.has_negation(node.input)
        if isinstance(node, plan.Concat):
            return any(map(self.has_negation, node.inputs))
        return isinstance(node, plan.Negate)

    def stream(self, ref: Ref) -> tuple[Ref, Placement]:
        """Return the position of an old node in the new list, and its placement."""
        if ref not in self.new_refs:
            self.new_refs[ref] = self.place_node(self, ref, self.nodes[ref])
        new = self.new_refs[ref]
        return new, self.placements[new]

    # Movement of rows; ``new`` is a position in the new list

    def partition(self, new: Ref, *, anywhere: bool = False) -> Ref:
        """Return the rows with each at one worker.

        With ``anywhere``, any worker will do, because an exchange sends the rows on.
        """
        if not self.placements[new].replicated:
            return new
        return self._take_share(new, anywhere=anywhere)

    def _take_share(self, new: Ref, *, anywhere: bool) -> Ref:
        """Return each worker's share of replicated rows, taken where they are read from a table."""
        node = self.new_nodes[new]
        if isinstance(node, plan.Enter) and self.outer is not None:
            share = self.outer.partition(node.input, anywhere=anywhere)
            return self.add(plan.Enter(share), self.outer.placements[share])
        if isinstance(node, plan.Source) and (home := self.tables.partition_column(node.table)) is not None:
            if anywhere:
                return self.add(Exchange(new, Route.PIECES, 0, held=True), STABLE)
            by = frozenset[PartitionKey]({(node.table, home, 0)})
            exchange = Exchange(new, Route.OWNER, 0, held=True, fetched=(node.table, home))
            return self.add(exchange, Placement(by=by, stable=True))
        if isinstance(node, plan.Linear) and self.placements[node.input].replicated:
            share = self._take_share(node.input, anywhere=anywhere)
            return self.add(plan.Linear(share, node.mfp), map_placement(self.placements[share], node.mfp))
        if isinstance(node, plan.Negate) and self.placements[node.input].replicated:
            share = self._take_share(node.input, anywhere=anywhere)
            return self.add(plan.Negate(share), negate_placement(self.placements[share]))
        return self.add(Exchange(new, Route.FIRST, held=True), WORKER_0)

    def move_to_owners(self, new: Ref, column: int) -> Ref:
        """Return the rows at the owners of a column's words.

        Replicated rows stay, unless they are large.
        """
        place = self.placements[new]
        if (place.replicated and not place.large) or column in place.by:
            return new
        node = self.new_nodes[new]
        if place.large and isinstance(node, plan.Enter) and self.outer is not None:
            outside = self.outer.move_to_owners(node.input, column)
            return self.add(plan.Enter(outside), self.outer.placements[outside])
        if place.large and isinstance(node, plan.Linear):
            share = self.partition_before_map(node.input, node.mfp, column)
            if share is not None:
                return self.add(plan.Linear(share, node.mfp), map_placement(self.placements[share], node.mfp))
        exchange = Exchange(new, Route.OWNER, column, held=place.replicated)
        return self.add(exchange, Placement(by=frozenset({column})))

    def partition_before_map(self, below: Ref, mfp: Mfp, column: int) -> Ref | None:
        """Return the share of a table's rows by the owner of a mapped column, taken before the map.

        Returns None if the column is not a column of the table.
        """
        key = mfp.outputs[column]
        if not isinstance(self.new_nodes[below], plan.Source) or not isinstance(key, Fetch | Column):
            return None
        fetched = (key.table, key.column) if isinstance(key, Fetch) else None
        if isinstance(key, Fetch) and key.rowid != Column(0, key.rowid.type):
            return None
        known: PartitionKey = (key.table, key.column, 0) if isinstance(key, Fetch) else 0
        share = Exchange(below, Route.OWNER, 0, held=True, fetched=fetched)
        return self.add(share, Placement(by=frozenset({known})))

    def colocate_groups(
        self, new: Ref, columns: int, preferred: int | None, combine: Combine | None = None
    ) -> Ref:
        """Return the rows with those that agree on the first ``columns`` columns at one worker.

        Replicated rows stay, unless they are large.

        Args:
          new: the stream, in the new list.
          columns: the number of leading group columns.
          preferred: the group column to partition by if rows must move.
          combine: how rows are pre-aggregated before they are sent.
        """
        place = self.placements[new]
        if (place.replicated and not place.large) or place.at_worker_0:
            return new
        if any(isinstance(key, int) and key < columns for key in place.by):
            return new
        if columns:
            column = 0 if preferred is None or preferred >= columns else preferred
            if place.large and combine is not None and not self._is_partition_column(new, column):
                new = self.partition(new, anywhere=True)
            if self.placements[new].replicated:
                return self.move_to_owners(new, column)
            if any(isinstance(key, int) and key < columns for key in self.placements[new].by):
                return new
            exchange = Exchange(new, Route.OWNER, column, combine=combine)
            return self.add(exchange, Placement(by=frozenset({column})))
        return self.move_to_worker_0(new, combine)

    def _is_partition_column(self, new: Ref, column: int) -> bool:
        node = self.new_nodes[new]
        if not isinstance(node, plan.Linear):
            return False
        key = node.mfp.outputs[column]
        return isinstance(key, Fetch) and self.tables.partition_column(key.table) == key.column

    def move_to_worker_0(self, new: Ref, combine: Combine | None = None) -> Ref:
        """Return the rows at worker 0."""
        if self.placements[new].at_worker_0:
            return new
        if combine is not None:
            new = self.partition(new, anywhere=True)
        if self.placements[new].replicated:
            return self.add(Exchange(new, Route.FIRST, held=True), WORKER_0)
        return self.add(Exchange(new, Route.FIRST, combine=combine), WORKER_0)

    def replicate(self, new: Ref) -> Ref:
        """Return the rows at every worker."""
        if self.placements[new].replicated:
            return new
        return self.add(Exchange(new, Route.EVERYWHERE), REPLICATED)

    def place_arrangement(self, ref: Ref, move: Callable[["Level", Ref], Ref]) -> Ref:
        """Return an arrangement of the old list in the new one, over rows that ``move`` has placed.

        In a loop's body, an arrangement from outside enters the loop.
        """
        node = self.nodes[ref]
        if isinstance(node, plan.Enter):
            assert self.outer is not None
            outside = self.outer.place_arrangement(node.input, move)
            return self.add(plan.Enter(outside), self.outer.placements[outside])
        if isinstance(node, plan.Arrange):
            source, _ = self.stream(node.input)
            return self.arrange(move(self, source), node.key)
        new, _ = self.stream(ref)
        brought = move(self, new)
        return new if brought == new else self.arrange(brought, 1)

    def arrange(self, new: Ref, key: int) -> Ref:
        return self.add(plan.Arrange(new, key), self.placements[new])


def _can_fail(node: AnyNode) -> bool:
    """Return whether a node can produce failed rows."""
    if isinstance(node, plan.Linear | plan.Delta | plan.HalfJoin | plan.RangeJoin):
        return not all(map(never_fails, (*node.mfp.predicates, *node.mfp.outputs)))
    return isinstance(node, plan.Expand)


def move_to_owners_of_first(level: Level, new: Ref) -> Ref:
    """Return the rows at the owners of their first column's words."""
    return level.move_to_owners(new, 0)


def map_placement(place: Placement, mfp: Mfp) -> Placement:
    """Return the placement of rows after a map."""
    if place.replicated or place.at_worker_0:
        return place
    return Placement(by=frozenset(_map_keys(place.by, mfp)), stable=place.stable)


def _map_keys(by: frozenset[PartitionKey], mfp: Mfp) -> Iterable[PartitionKey]:
    for at, output in enumerate(mfp.outputs):
        if isinstance(output, Column):
            for key in by:
                if key == output.index:
                    yield at
                elif isinstance(key, tuple) and key[2] == output.index:
                    yield (key[0], key[1], at)
        elif (
            isinstance(output, Fetch)
            and isinstance(output.rowid, Column)
            and (output.table, output.column, output.rowid.index) in by
        ):
            yield at


def negate_placement(place: Placement) -> Placement:
    """Return the placement of negated rows.

    They may cancel rows of another stream, so they are not stable.
    """
    return Placement(place.replicated, place.large, place.by, place.at_worker_0)


def concat_placement(places: Sequence[Placement]) -> Placement:
    """Return the placement of the concatenation of streams."""
    if all(place.at_worker_0 for place in places):
        return WORKER_0
    by = frozenset[PartitionKey].intersection(*(place.by for place in places))
    return Placement(by=by, stable=all(place.stable for place in places))


def check_early_materialization(
    nodes: Sequence[AnyNode], tables: Tables, outer: Sequence[AnyNode] = ()
) -> None:
    """Raise InternalError if a column is fetched where its row may be absent."""
    for node in nodes:
        if isinstance(node, plan.Loop):
            check_early_materialization(node.body, tables, nodes)
        for fetch in _fetches(node):
            if tables.owner_column(fetch.table) is not None and not _is_at_owner(node, fetch, nodes, outer):
                raise InternalError(f"a column of {fetch.table} is read where its rows may not be")


def _fetches(node: AnyNode) -> Iterator[Fetch]:
    mfp = getattr(node, "mfp", None)
    if isinstance(mfp, Mfp):
        for scalar in (*mfp.predicates, *mfp.outputs):
            yield from (part for part in walk(scalar) if isinstance(part, Fetch))


def _is_at_owner(node: AnyNode, fetch: Fetch, nodes: Sequence[AnyNode], outer: Sequence[AnyNode]) -> bool:
    if not isinstance(node, plan.Linear | plan.Delta) or not isinstance(fetch.rowid, Column):
        return False
    return _is_rowid_of_source(nodes, node.input, fetch.rowid.index, fetch.table, outer)


def _is_rowid_of_source(
    nodes: Sequence[AnyNode], ref: Ref, column: int, table: str, outer: Sequence[AnyNode]
) -> bool:
    """Return whether a column holds the rowids of a table that is read at this worker."""
    node = nodes[ref]
    if isinstance(node, plan.Source):
        return node.table == table and column == 0
    if isinstance(node, plan.Linear):
        output = node.mfp.outputs[column]
        return isinstance(output, Column) and _is_rowid_of_source(
            nodes, node.input, output.index, table, outer
        )
    if isinstance(node, plan.Negate | plan.Arrange):
        return _is_rowid_of_source(nodes, node.input, column, table, outer)
    return isinstance(node, plan.Enter) and _is_rowid_of_source(outer, node.input, column, table, ())
