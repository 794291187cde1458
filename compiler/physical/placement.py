"""Placement of a plan's rows on workers, and the exchanges that move them.

Every worker runs every node. On one machine each worker has all rows of the base tables; on several machines
each has the rows that it owns (``Tables.owner``). A stream is *held* if every worker has all its rows, as for
replicated tables and constants. It is *parted* if each row is at exactly one worker. An operator with state
per group needs the rows of a group at one worker, and a lookup needs a row where its match is. An exchange is
added where that is not the case. Where rows are held, each worker keeps its share and nothing is sent.

:class:`Wishes` counts the columns by which rows are looked up, and decides the placement where there is a
choice. A row that only its owner has must have its columns read there, before the row or its rowid is sent:
read elsewhere, a column would be NULL. Plans built under ``statistics.Statistics.early`` satisfy this, and
:func:`check_early` verifies it.
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


class Wishes:
    """Votes for the columns of the nodes of a plan or of a loop's body; ``bodies`` are those of loops."""

    def __init__(
        self, nodes: Sequence[AnyNode], outer: "Wishes | None" = None, results: tuple[Ref, ...] = ()
    ) -> None:
        """``results`` are those of the loop whose body it is."""
        self.nodes = nodes
        self.bodies: dict[Ref, Wishes] = {}
        self._outer = outer
        self._results = results
        self._votes: dict[Ref, Counter[int]] = defaultdict(Counter)
        self._seen: set[tuple[Ref, int]] = set()
        for ref, node in enumerate(nodes):
            if isinstance(node, plan.Loop):
                self.bodies[ref] = Wishes(node.body, self, node.results)
        if outer is None:
            self._count()

    def _count(self) -> None:
        """Count the votes, once all bodies are there: what is looked up in one may come from another."""
        for node in self.nodes:
            if isinstance(node, plan.DeltaJoin):
                for path in plan.paths_of(self.nodes, node):
                    self._join(path)
        for body in self.bodies.values():
            body._count()

    def of(self, ref: Ref) -> int | None:
        """The column by which a node's rows are looked up most often; None if by none."""
        votes = self._votes.get(ref)
        return min(votes, key=lambda column: (-votes[column], column)) if votes else None

    def _join(self, path: plan.Path) -> None:
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
                pass  # what it is computed of has no such column, or is not placed
            case never:
                assert_never(never)

    def _vote_result(self, result: int, column: int) -> None:
        self._vote(self._results[result], column)


Key = int | tuple[str, int, int]
"""A column, or a table's column fetched by the rowid in a column: (table, its column, where the rowid is)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a stream's rows are: ``held`` by all, or parted, those of one word of a key at one worker.

    ``loose`` rows are held, but whoever keeps state of them keeps its share only: those of a large table.
    """

    held: bool = False
    loose: bool = False
    by: frozenset[Key] = frozenset()
    first: bool = False
    """All rows are at worker 0."""
    steady: bool = False
    """A row goes where it has come, whatever it is: what each worker has are rows that there are."""

    def __str__(self) -> str:
        if self.held:
            return "held by all"
        if self.first:
            return "at worker 0"
        columns = sorted(key for key in self.by if isinstance(key, int))
        return f"parted by #{columns[0]}" if columns else "parted"


HELD: Final = Placement(held=True)
LOOSE: Final = Placement(held=True, loose=True)
PARTED: Final = Placement()
STEADY: Final = Placement(steady=True)
FIRST: Final = Placement(first=True)


class Tables(Protocol):
    """What is to be known of tables and views."""

    def home(self, table: str) -> int | None:
        """The column by which a table is distributed; None: all workers keep all of what is made of it."""

    def owner(self, table: str) -> int | None:
        """The column whose words tell which worker has a table's rows; None: all workers have them."""

    def view(self, name: str) -> Placement:
        """Where the rows of a view are."""


class Distributed(Protocol):
    """What knows how tables are distributed for plans."""

    @property
    def apart(self) -> bool:
        """Whether nobody but its owner has a row."""

    def sizes(self, query: Plan) -> Tables:
        """The tables that a plan reads, as they are: what is small beside others all workers keep."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan for many workers, and where each of its nodes' rows are; those of loops' bodies by position."""

    plan: Plan
    placements: tuple[Placement, ...]
    bodies: Mapping[Ref, tuple[Placement, ...]]

    @property
    def output(self) -> Placement:
        """Where the output's rows are."""
        return self.placements[self.plan.output]


def listens(node: AnyNode) -> bool:
    """Whether somebody outside listens to a node, or to one within it."""
    if isinstance(node, plan.Loop):
        return any(map(listens, node.body))
    return isinstance(node, user.Sink)


def needed(
    level: "Level", outputs: Iterable[Ref]
) -> tuple[tuple[AnyNode, ...], tuple[Placement, ...], dict[Ref, tuple[Placement, ...]], dict[Ref, Ref]]:
    """The nodes that outputs and listeners need: shares that turned out otherwise are left out.

    With their placements, those of loops' bodies, and where each is among them now.
    """
    listeners = [ref for ref, node in enumerate(level.out) if listens(node)]
    found, stack = set[Ref](), [*outputs, *listeners]
    while stack:
        ref = stack.pop()
        if ref not in found:
            found.add(ref)
            stack += plan.inputs(level.out[ref])
    kept = sorted(found)
    at = {ref: place for place, ref in enumerate(kept)}
    nodes = tuple(plan.moved(level.out[ref], at.__getitem__) for ref in kept)
    places = tuple(level.places[ref] for ref in kept)
    bodies = {at[ref]: inner for ref, inner in level.bodies.items() if ref in at}
    return nodes, places, bodies, at


@dataclass(slots=True)
class Level:
    """The nodes of a plan or of a loop's body, on their way to nodes with exchanges between them."""

    nodes: Sequence[AnyNode]
    tables: Tables
    wishes: Wishes
    place_node: "Callable[[Level, Ref, AnyNode], Ref]"
    """Adds a node to the new list by the rule for its kind."""
    outer: "Level | None" = None
    variables: Sequence[Placement] = ()
    out: list[AnyNode] = field(default_factory=list)
    places: list[Placement] = field(default_factory=list)
    bodies: dict[Ref, tuple[Placement, ...]] = field(default_factory=dict)
    loops: dict[Ref, tuple[Ref, tuple[Placement, ...]]] = field(default_factory=dict)
    streams: dict[Ref, Ref] = field(default_factory=dict)
    added: dict[AnyNode, Ref] = field(default_factory=dict)
    loop: Ref | None = None
    """The loop whose body it is, in the old list of ``outer``."""
    whole: bool = False
    """Whether each worker has all that enters from outside of this loop."""
    _columns: plan.Columns | None = None
    _fails: bool | None = None

    def add(self, node: AnyNode, placement: Placement) -> Ref:
        """A node of the new list; the same one for equal nodes."""
        if not isinstance(node, plan.Loop | user.Sink | user.Custom) and node in self.added:
            return self.added[node]
        self.out.append(node)
        self.places.append(placement)
        self.added[node] = len(self.out) - 1
        return len(self.out) - 1

    def widths(self, ref: Ref) -> int:
        """The number of columns of a node of the old list."""
        return len(self.columns.types[ref])

    @property
    def columns(self) -> plan.Columns:
        """The types of the old list."""
        if self._columns is None:
            if self.outer is None or self.loop is None:
                self._columns = plan.Columns(self.nodes)
            else:
                self._columns = self.outer.columns.bodies[self.loop]
        return self._columns

    @property
    def fails(self) -> bool:
        """Whether some row may fail, here or within what this is in."""
        if self._fails is None:
            inside = any(map(_may_fail, self.nodes))
            self._fails = inside or (self.outer is not None and self.outer.fails)
        return self._fails

    def takes_away(self, ref: Ref) -> bool:
        """Whether a node of the old list takes rows away that another one has."""
        node = self.nodes[ref]
        if isinstance(node, plan.Linear):
            return self.takes_away(node.input)
        if isinstance(node, plan.Concat):
            return any(map(self.takes_away, node.inputs))
        return isinstance(node, plan.Negate)

    def stream(self, ref: Ref) -> tuple[Ref, Placement]:
        """A node of the old list in the new one, wherever its rows are."""
        if ref not in self.streams:
            self.streams[ref] = self.place_node(self, ref, self.nodes[ref])
        new = self.streams[ref]
        return new, self.places[new]

    # Bringing rows to where they are needed: positions in the new list

    def parted(self, new: Ref, *, anyhow: bool = False) -> Ref:
        """The rows, each at one worker; ``anyhow``: whichever it is, they are soon sent to another."""
        if not self.places[new].held:
            return new
        return self._shared(new, anyhow=anyhow)

    def _shared(self, new: Ref, *, anyhow: bool) -> Ref:
        """Each worker's share of rows that all of them hold: taken where they are read from a table."""
        node = self.out[new]
        if isinstance(node, plan.Enter) and self.outer is not None:
            share = self.outer.parted(node.input, anyhow=anyhow)
            return self.add(plan.Enter(share), self.outer.places[share])
        if isinstance(node, plan.Source) and (home := self.tables.home(node.table)) is not None:
            if anyhow:
                return self.add(Exchange(new, Route.PIECES, 0, held=True), STEADY)
            by = frozenset[Key]({(node.table, home, 0)})
            taken = Exchange(new, Route.OWNER, 0, held=True, fetched=(node.table, home))
            return self.add(taken, Placement(by=by, steady=True))
        if isinstance(node, plan.Linear) and self.places[node.input].held:
            share = self._shared(node.input, anyhow=anyhow)
            return self.add(plan.Linear(share, node.mfp), mapped(self.places[share], node.mfp))
        if isinstance(node, plan.Negate) and self.places[node.input].held:
            share = self._shared(node.input, anyhow=anyhow)
            return self.add(plan.Negate(share), negated(self.places[share]))
        return self.add(Exchange(new, Route.FIRST, held=True), FIRST)

    def owned(self, new: Ref, column: int) -> Ref:
        """The rows at the owners of a column's words; held rows stay so unless they are loose."""
        place = self.places[new]
        if (place.held and not place.loose) or column in place.by:
            return new
        node = self.out[new]
        if place.loose and isinstance(node, plan.Enter) and self.outer is not None:
            outside = self.outer.owned(node.input, column)
            return self.add(plan.Enter(outside), self.outer.places[outside])
        if place.loose and isinstance(node, plan.Linear):
            share = self.owned_share(node.input, node.mfp, column)
            if share is not None:
                return self.add(plan.Linear(share, node.mfp), mapped(self.places[share], node.mfp))
        exchange = Exchange(new, Route.OWNER, column, held=place.held)
        return self.add(exchange, Placement(by=frozenset({column})))

    def owned_share(self, below: Ref, mfp: Mfp, column: int) -> Ref | None:
        """The share of a table's rows by a column that they are mapped to, taken before they are mapped."""
        key = mfp.outputs[column]
        if not isinstance(self.out[below], plan.Source) or not isinstance(key, Fetch | Column):
            return None
        fetched = (key.table, key.column) if isinstance(key, Fetch) else None
        if isinstance(key, Fetch) and key.rowid != Column(0, key.rowid.type):
            return None
        known: Key = (key.table, key.column, 0) if isinstance(key, Fetch) else 0
        share = Exchange(below, Route.OWNER, 0, held=True, fetched=fetched)
        return self.add(share, Placement(by=frozenset({known})))

    def together(self, new: Ref, columns: int, wished: int | None, combine: Combine | None = None) -> Ref:
        """The rows that agree on so many leading columns at one worker; held rows may stay so."""
        place = self.places[new]
        if (place.held and not place.loose) or place.first:
            return new
        if any(isinstance(key, int) and key < columns for key in place.by):
            return new
        if columns:
            column = 0 if wished is None or wished >= columns else wished
            if place.loose and combine is not None and not self._is_home(new, column):
                new = self.parted(new, anyhow=True)
            if self.places[new].held:
                return self.owned(new, column)
            if any(isinstance(key, int) and key < columns for key in self.places[new].by):
                return new
            exchange = Exchange(new, Route.OWNER, column, combine=combine)
            return self.add(exchange, Placement(by=frozenset({column})))
        return self.first(new, combine)

    def _is_home(self, new: Ref, column: int) -> bool:
        node = self.out[new]
        if not isinstance(node, plan.Linear):
            return False
        key = node.mfp.outputs[column]
        return isinstance(key, Fetch) and self.tables.home(key.table) == key.column

    def first(self, new: Ref, combine: Combine | None = None) -> Ref:
        """The rows at worker 0; of held rows those of its own."""
        if self.places[new].first:
            return new
        if combine is not None:
            new = self.parted(new, anyhow=True)
        if self.places[new].held:
            return self.add(Exchange(new, Route.FIRST, held=True), FIRST)
        return self.add(Exchange(new, Route.FIRST, combine=combine), FIRST)

    def everywhere(self, new: Ref) -> Ref:
        """The rows at every worker."""
        if self.places[new].held:
            return new
        return self.add(Exchange(new, Route.EVERYWHERE), HELD)

    def arranged(self, ref: Ref, bring: Callable[["Level", Ref], Ref]) -> Ref:
        """An arrangement of the old list, of rows that ``bring`` puts where they are needed.

        In a loop's body one from outside is entered.
        """
        node = self.nodes[ref]
        if isinstance(node, plan.Enter):
            assert self.outer is not None
            outside = self.outer.arranged(node.input, bring)
            return self.add(plan.Enter(outside), self.outer.places[outside])
        if isinstance(node, plan.Arrange):
            source, _ = self.stream(node.input)
            return self.arrange(bring(self, source), node.key)
        new, _ = self.stream(ref)
        brought = bring(self, new)
        return new if brought == new else self.arrange(brought, 1)

    def arrange(self, new: Ref, key: int) -> Ref:
        return self.add(plan.Arrange(new, key), self.places[new])


def _may_fail(node: AnyNode) -> bool:
    """Whether a node may make rows that have failed."""
    if isinstance(node, plan.Linear | plan.Delta | plan.HalfJoin | plan.RangeJoin):
        return not all(map(never_fails, (*node.mfp.predicates, *node.mfp.outputs)))
    return isinstance(node, plan.Expand)


def owned_by_first(level: Level, new: Ref) -> Ref:
    """Rows at the owners of their first column's words."""
    return level.owned(new, 0)


def mapped(place: Placement, mfp: Mfp) -> Placement:
    """Where rows are after they were mapped."""
    if place.held or place.first:
        return place
    return Placement(by=frozenset(_mapped(place.by, mfp)), steady=place.steady)


def _mapped(by: frozenset[Key], mfp: Mfp) -> Iterable[Key]:
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


def negated(place: Placement) -> Placement:
    """Where rows are that are taken away: from others' rows, perhaps."""
    return Placement(place.held, place.loose, place.by, place.first)


def summed(places: Sequence[Placement]) -> Placement:
    """Where rows are that are at one of several places."""
    if all(place.first for place in places):
        return FIRST
    by = frozenset[Key].intersection(*(place.by for place in places))
    return Placement(by=by, steady=all(place.steady for place in places))


def check_early(nodes: Sequence[AnyNode], tables: Tables, outer: Sequence[AnyNode] = ()) -> None:
    """InternalError if a column is read where its row may not be."""
    for node in nodes:
        if isinstance(node, plan.Loop):
            check_early(node.body, tables, nodes)
        for fetch in _fetches(node):
            if tables.owner(fetch.table) is not None and not _is_here(node, fetch, nodes, outer):
                raise InternalError(f"a column of {fetch.table} is read where its rows may not be")


def _fetches(node: AnyNode) -> Iterator[Fetch]:
    mfp = getattr(node, "mfp", None)
    if isinstance(mfp, Mfp):
        for scalar in (*mfp.predicates, *mfp.outputs):
            yield from (one for one in walk(scalar) if isinstance(one, Fetch))


def _is_here(node: AnyNode, fetch: Fetch, nodes: Sequence[AnyNode], outer: Sequence[AnyNode]) -> bool:
    if not isinstance(node, plan.Linear | plan.Delta) or not isinstance(fetch.rowid, Column):
        return False
    return _is_read(nodes, node.input, fetch.rowid.index, fetch.table, outer)


def _is_read(nodes: Sequence[AnyNode], ref: Ref, column: int, table: str, outer: Sequence[AnyNode]) -> bool:
    """Whether a column has the rowids of a table that is read there."""
    node = nodes[ref]
    if isinstance(node, plan.Source):
        return node.table == table and column == 0
    if isinstance(node, plan.Linear):
        output = node.mfp.outputs[column]
        return isinstance(output, Column) and _is_read(nodes, node.input, output.index, table, outer)
    if isinstance(node, plan.Negate | plan.Arrange):
        return _is_read(nodes, node.input, column, table, outer)
    return isinstance(node, plan.Enter) and _is_read(outer, node.input, column, table, ())
