"""A small builder of plans with loops: streams of BIGINT columns, binary joins, nested bodies.

Columns of a stream keep their order; what an arrangement needs (its key first) is made and shared here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kpg.runtime.plan import (
    Aggregate,
    Arrange,
    Concat,
    Constant,
    Delta,
    DeltaJoin,
    Distinct,
    Enter,
    HalfJoin,
    Import,
    Leave,
    Linear,
    Loop,
    Mfp,
    Negate,
    Node,
    Plan,
    Reduce,
    Source,
    Threshold,
    TopK,
    Variable,
)
from kpg.runtime.scalar import Call, Column, Fetch, Literal, Scalar, remap
from kpg.runtime.types import BIGINT, BOOLEAN, ROWID, ColumnDef, Schema, Type

EDGE = Schema(tuple(ColumnDef(name, BIGINT) for name in ("x", "y", "w")))
ROOT = Schema((ColumnDef("x", BIGINT),))
POISON = Schema((ColumnDef("x", BIGINT), ColumnDef("y", BIGINT)))
CELL = Schema(tuple(ColumnDef(name, BIGINT) for name in ("r", "s", "t", "sign", "k", "v")))
SCHEMAS = {"edge": EDGE, "root": ROOT, "poison": POISON, "left": CELL, "right": CELL}
On = Sequence[tuple[int, int]]
"""Pairs of columns that must be equal: one of the left, one of the right."""


def col(index: int) -> Scalar:
    return Column(index, BIGINT)


def number(value: int) -> Scalar:
    return Literal(value, BIGINT)


def add(left: Scalar, right: Scalar) -> Scalar:
    return Call("add", (left, right), BIGINT)


def compare(function: str, left: Scalar, right: Scalar) -> Scalar:
    return Call(function, (left, right), BOOLEAN)


@dataclass(eq=False)
class Builder:
    """A list of nodes in the making; ``outer`` is the list around a loop's body."""

    outer: "Builder | None" = None
    nodes: list[Node] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    variables: int = 0
    known: dict[Node, int] = field(default_factory=dict)
    copy: bool = False
    """Whether entered streams are arranged anew in the body, not outside."""

    def node(self, node: Node, width: int) -> int:
        """Add a node, unless the list has an equal one that is no variable."""
        if node in self.known:
            return self.known[node]
        self.nodes.append(node)
        self.widths.append(width)
        self.known[node] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def view(self, name: str, width: int) -> int:
        """The contents of another view."""
        return self.node(Import(name, (BIGINT,) * width), width)

    def source(self, table: str) -> int:
        """A table's rowids."""
        return self.node(Source(table), 1)

    def table(self, table: str) -> int:
        """All columns of a table."""
        width = len(SCHEMAS[table].columns)
        outputs = tuple(self.fetch(table, column, 0) for column in range(width))
        return self.node(Linear(self.source(table), Mfp((), outputs)), width)

    def edges(self) -> int:
        """The distinct pairs (x, y) of edge."""
        return self.distinct(self.linear(self.table("edge"), (0, 1)))

    def roots(self) -> int:
        """The distinct rows of root."""
        return self.distinct(self.table("root"))

    def ends(self, edges: int) -> int:
        """The distinct nodes of pairs."""
        return self.distinct(self.concat(self.linear(edges, (0,)), self.linear(edges, (1,))))

    def rowid(self, position: int) -> Scalar:
        """A column that holds rowids."""
        return Column(position, ROWID)

    def fetch(self, table: str, column: int, position: int) -> Scalar:
        """A table's column of the row whose rowid is in the given column."""
        return Fetch(table, column, self.rowid(position), BIGINT)

    def constant(self, *rows: tuple[int, ...]) -> int:
        return self.node(Constant(rows, (BIGINT,) * len(rows[0])), len(rows[0]))

    def linear(self, ref: int, outputs: Sequence[Scalar | int], *predicates: Scalar) -> int:
        """Map and filter; an int is that column."""
        scalars = tuple(col(output) if isinstance(output, int) else output for output in outputs)
        return self.node(Linear(ref, Mfp(predicates, scalars)), len(scalars))

    def filter(self, ref: int, *predicates: Scalar) -> int:
        return self.linear(ref, range(self.widths[ref]), *predicates)

    def concat(self, *refs: int) -> int:
        return self.node(Concat(refs), self.widths[refs[0]])

    def negate(self, ref: int) -> int:
        return self.node(Negate(ref), self.widths[ref])

    def distinct(self, ref: int) -> int:
        return self.node(Distinct(ref), self.widths[ref])

    def threshold(self, ref: int) -> int:
        return self.node(Threshold(ref), self.widths[ref])

    def reduce(self, ref: int, key: int, *functions: tuple[str, int | None]) -> int:
        aggregates = tuple(Aggregate(function, argument, BIGINT) for function, argument in functions)
        return self.node(Reduce(ref, key, aggregates), key + len(functions))

    def top(self, ref: int, group: int, limit: int | None = 1, offset: int = 0) -> int:
        """The first rows of each group of leading columns."""
        return self.node(TopK(self.arrange(ref, range(group)), group, limit, offset), self.widths[ref])

    def arrange(self, ref: int, key: Sequence[int]) -> int:
        """An arrangement by columns of a stream: the key first, then the others; outside, if it can be."""
        node = self.nodes[ref]
        if isinstance(node, Enter) and self.outer is not None and not self.copy:
            return self.enter(self.outer.arrange(node.input, key))
        order = self.order(ref, key)
        keyed = ref if order == list(range(self.widths[ref])) else self.linear(ref, order)
        return self.node(Arrange(keyed, len(key)), self.widths[ref])

    def order(self, ref: int, key: Sequence[int]) -> list[int]:
        """The stream's columns as they stand in an arrangement by ``key``."""
        return [*key, *(column for column in range(self.widths[ref]) if column not in key)]

    def join(
        self, left: int, right: int, on: On, outputs: Sequence[Scalar | int], *predicates: Scalar
    ) -> int:
        """Pairs of rows that agree on ``on``; outputs and predicates see the left row, then the right row."""
        width, other = self.widths[left], self.widths[right]
        lefts, rights = tuple(pair[0] for pair in on), tuple(pair[1] for pair in on)
        by_left, by_right = self.arrange(left, lefts), self.arrange(right, rights)
        in_left = [other + self.order(left, lefts).index(column) for column in range(width)]
        in_right = [width + self.order(right, rights).index(column) for column in range(other)]
        from_left = [*range(width), *in_right]
        from_right = [*in_left, *range(other)]
        there = self.path(left, 0, whole(width), (by_right, 1, lefts, moved(outputs, predicates, from_left)))
        here = self.path(right, 1, whole(other), (by_left, 0, rights, moved(outputs, predicates, from_right)))
        return self.node(DeltaJoin((there, here)), len(outputs))

    def path(self, stream: int, start: int, mfp: Mfp, *lookups: tuple[int, int, Sequence[int], Mfp]) -> int:
        """A chain of half-joins: (arrangement, relation, key, mfp) of each; its end."""
        end = self.node(Delta(stream, mfp), len(mfp.outputs))
        for arrangement, relation, key, then in lookups:
            half = HalfJoin(end, arrangement, start, relation, tuple(key), then)
            end = self.node(half, len(then.outputs))
        return end

    def chain(self, first: int, middle: int, last: int) -> int:
        """(x, y) for first(a, x), middle(a, b), last(b, y): one delta join of three streams of pairs."""
        by_first, by_middle = self.arrange(first, (0,)), self.arrange(middle, (0,))
        by_end, by_last = self.arrange(middle, (1,)), self.arrange(last, (0,))
        pair = whole(2)
        towards_last = (by_last, 2, (1,), Mfp((), (col(0), col(3))))
        onward, back = Mfp((), (col(1), col(3))), Mfp((), (col(3), col(1)))
        paths = (
            self.path(first, 0, pair, (by_middle, 1, (0,), onward), towards_last),
            self.path(middle, 1, pair, (by_first, 0, (0,), back), towards_last),
            self.path(last, 2, pair, (by_end, 1, (0,), back), (by_first, 0, (0,), back)),
        )
        return self.node(DeltaJoin(paths), 2)

    def semijoin(self, left: int, right: int, column: int) -> int:
        """Rows of ``left`` whose column is in the one-column, distinct ``right``."""
        return self.join(left, right, [(column, 0)], range(self.widths[left]))

    def antijoin(self, left: int, right: int, column: int) -> int:
        return self.concat(left, self.negate(self.semijoin(left, right, column)))

    def body(self, *, copy: bool = False) -> "Builder":
        """The body of a loop in this list."""
        return Builder(self, copy=copy)

    def enter(self, ref: int) -> int:
        assert self.outer is not None
        return self.node(Enter(ref), self.outer.widths[ref])

    def variable(self, width: int, initial: int | None = None, *, last: Type = BIGINT) -> int:
        """A recursive collection; ``last`` is the type of its last column."""
        self.variables += 1
        types = (*(BIGINT,) * (width - 1), last)
        return self.node(Variable(self.variables - 1, types, initial), width)

    def loop(
        self, body: "Builder", *results: int, limit: int | None = None, error_at_limit: bool = False
    ) -> tuple[int, ...]:
        """Close a body; the results as streams of this list."""
        assert body.outer is self and len(results) >= body.variables
        ref = self.node(Loop(tuple(body.nodes), results, limit, error_at_limit), 0)
        return tuple(self.node(Leave(ref, i), body.widths[result]) for i, result in enumerate(results))

    def plan(self, ref: int) -> Plan:
        """The finished plan; its output is arranged."""
        assert self.outer is None
        output = self.node(Arrange(ref, self.widths[ref]), self.widths[ref])
        return Plan(tuple(self.nodes), output)


def moved(outputs: Sequence[Scalar | int], predicates: Sequence[Scalar], places: Sequence[int]) -> Mfp:
    """The mfp with every column c of the pair at ``places[c]``."""
    scalars = [col(output) if isinstance(output, int) else output for output in outputs]
    return Mfp(
        tuple(remap(p, places.__getitem__) for p in predicates),
        tuple(remap(s, places.__getitem__) for s in scalars),
    )


def whole(width: int) -> Mfp:
    """Every row as it is."""
    return Mfp((), tuple(col(index) for index in range(width)))
