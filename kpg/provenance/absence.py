"""Why-not provenance: for each query of a view, the first input or condition that a missing row lacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Join, Node, Query, produced
from kpg.provenance import row_text
from kpg.provenance.derivation import Walk
from kpg.provenance.node_rows import Values
from kpg.provenance.proof_tree import Failure, RuleText
from kpg.runtime.errors import Span
from kpg.runtime.scalar import Column, Scalar, transform

FEW: Final = 3
"""Rows that are shown of those that come nearest."""
LONGEST: Final = 100
"""Characters of a query that are shown."""


class Missing:
    """What a query lacks to have a row."""

    def __init__(self, walk: Walk, sql: str) -> None:
        self._walk = walk
        self._asking = walk.asking
        text = " ".join(sql.split())
        self._rule = RuleText(text if len(text) <= LONGEST else f"{text[:LONGEST]}…", Span(sql, 0, len(sql)))

    def query(self, query: Query, known: Mapping[int, int]) -> Iterator[Failure]:
        """For values of columns by their places."""
        return self.of(query.node, {query.columns[place].index: word for place, word in known.items()})

    def of(self, node: Node, known: Values) -> Iterator[Failure]:
        """What stands in the way of a row of a node with these values: one failure for each query."""
        match node:
            case (
                bound_tree.Filter()
                | bound_tree.Map()
                | bound_tree.Join()
                | bound_tree.Expand()
                | bound_tree.Scan()
                | bound_tree.Rows()
            ):
                yield from self._block(node, known, ())
            case bound_tree.Shared(name=name, ids=ids):
                if name.startswith("view ") or name in self._asking.resolved.loops:
                    yield from self._block(node, known, ())
                else:
                    query = self._asking.resolved.shared[name]
                    yield from self.query(query, {ids.index(id_): word for id_, word in known.items()})
            case bound_tree.Group(input=source, key_ids=key_ids, keys=keys):
                pairs = zip(key_ids, keys, strict=True)
                tests = [self._asking.same(key, known[id_]) for id_, key in pairs if id_ in known]
                yield from self._block(source, {}, tests)
            case bound_tree.GroupingSets(input=source):
                yield from self._block(source, {}, ())
            case bound_tree.Distinct(input=source):
                yield from self.of(source, known)
            case bound_tree.TopK(input=source):
                yield from self._beyond(node, source, known, "the row comes after those that LIMIT keeps")
            case bound_tree.Window(input=source, ids=ids):
                own = {id_: word for id_, word in known.items() if id_ not in ids}
                yield from self._beyond(node, source, own, "a window function gives another value")
            case bound_tree.SetOperation():
                yield from self._sets(node, known)
            case _:
                assert_never(node)

    def _beyond(self, node: Node, source: Node, known: Values, text: str) -> Iterator[Failure]:
        """What a node does to a row that its input has; else what the input lacks."""
        if self._there(source, known):
            yield self._failure((), text)
        else:
            yield from self.of(source, known)

    def _there(self, node: Node, known: Values, tests: Sequence[Scalar] = ()) -> bool:
        return bool(self._asking.rows(node, sorted(produced(node))[:1], known, {}, tests)[0].shape[1])

    def _sets(self, node: bound_tree.SetOperation, known: Values) -> Iterator[Failure]:
        sides = [
            (query, {node.ids.index(id_): word for id_, word in known.items()})
            for query in (node.left, node.right)
        ]
        there = [
            self._there(query.node, {query.columns[place].index: word for place, word in values.items()})
            for query, values in sides
        ]
        if node.kind == "except" and all(there):
            yield self._failure((), "the second query of EXCEPT has such a row")
            return
        for (query, values), has in zip(sides, there, strict=True):
            if not has and (node.kind != "except" or query is node.left):
                yield from self.query(query, values)

    # Blocks: one relation after the other, until nothing is left

    def _block(self, node: Node, known: Values, more: Sequence[Scalar]) -> Iterator[Failure]:
        leaves: list[Node] = []
        made: dict[int, Scalar] = {}
        tests = list(more)
        _taken_apart(node, leaves, tests, made)
        tests += [self._asking.same(self._asking.column(id_), word) for id_, word in known.items()]
        tests = [_written_out(test, made) for test in tests]
        yield self._first_failure(leaves, tests)

    def _first_failure(self, leaves: list[Node], tests: list[Scalar]) -> Failure:
        current: Node | None = None
        while leaves:
            leaf = self._next(leaves, tests, current)
            leaves.remove(leaf)
            before, current = current, leaf if current is None else Join("inner", current, leaf, ())
            here = [test for test in tests if self._asking.asked([test]) <= produced(current)]
            tests = [test for test in tests if test not in here]
            current = bound_tree.Filter(current, tuple(here)) if here else current
            if not self._there(current, {}):
                return self._lacking(before, leaf, here)
        return self._failure((), "another value")

    def _next(self, leaves: Sequence[Node], tests: Sequence[Scalar], current: Node | None) -> Node:
        """The relation that the most conditions can be asked of."""
        there = produced(current) if current is not None else frozenset[int]()

        def number(leaf: Node) -> int:
            both = there | produced(leaf)
            return sum(bool(used & produced(leaf)) and used <= both for used in map(self._used, tests))

        return max(leaves, key=number)

    def _used(self, test: Scalar) -> frozenset[int]:
        return self._asking.asked([test])

    def _lacking(self, before: Node | None, leaf: Node, tests: Sequence[Scalar]) -> Failure:
        """No row of a relation goes with those before: by which conditions, and which rows come nearest."""
        values = self._example(before)
        own = {id_: word for id_, word in values.items() if id_ not in produced(leaf)}
        shown = " AND ".join(self._walk.names.scalar(test, own) for test in tests)
        title = row_text.title(leaf)
        fails = f"a row of {title}" + (f" with {shown}" if shown else "")
        return self._failure((*self._held(before, values), *self._near(leaf, own, tests)), fails)

    def _near(self, leaf: Node, own: Values, tests: Sequence[Scalar]) -> Iterator[str]:
        """Rows of the relation of which all conditions but one are true."""
        if len(tests) < 2 or not isinstance(leaf, bound_tree.Scan | bound_tree.Shared):
            return
        for left in tests:
            rest = [test for test in tests if test is not left]
            data, _ = self._asking.rows(leaf, leaf.ids, {}, own, rest)
            for row in data.T[:1].tolist():
                yield self._row(leaf, row)
                return

    def _held(self, before: Node | None, values: Values) -> Iterator[str]:
        for node in bound_tree.walk(before) if before is not None else ():
            if isinstance(node, bound_tree.Scan | bound_tree.Shared) and set(node.ids) <= set(values):
                yield self._row(node, [values[id_] for id_ in node.ids])

    def _example(self, node: Node | None) -> dict[int, int]:
        if node is None:
            return {}
        want = sorted(produced(node))
        data, _ = self._asking.rows(node, want, {}, {})
        return dict(zip(want, data[:, 0].tolist(), strict=True)) if data.shape[1] else {}

    def _row(self, node: bound_tree.Scan | bound_tree.Shared, row: Sequence[int]) -> str:
        names = self._walk.names.columns(node)
        values = [
            row_text.value_of(word, self._asking.types[id_], self._asking.dictionary)
            for id_, word, _ in zip(node.ids, row, names, strict=False)
        ]
        return row_text.row_text(row_text.title(node), names, values)

    def _failure(self, holds: Sequence[str], fails: str) -> Failure:
        return Failure(self._rule, tuple(holds), fails, 1)


def _taken_apart(node: Node, leaves: list[Node], tests: list[Scalar], made: dict[int, Scalar]) -> None:
    """The relations that a block joins, its conditions, and the columns that it computes."""
    if isinstance(node, bound_tree.Filter):
        tests += node.predicates
        _taken_apart(node.input, leaves, tests, made)
    elif isinstance(node, bound_tree.Map):
        made.update(zip(node.ids, node.scalars, strict=True))
        _taken_apart(node.input, leaves, tests, made)
    elif isinstance(node, Join) and node.kind == "inner":
        tests += node.on
        _taken_apart(node.left, leaves, tests, made)
        _taken_apart(node.right, leaves, tests, made)
    else:
        leaves.append(node)


def _written_out(scalar: Scalar, made: Mapping[int, Scalar]) -> Scalar:
    """A condition with computed columns as they are computed."""

    def written(node: Scalar) -> Scalar:
        if isinstance(node, Column) and node.index in made:
            return _written_out(made[node.index], made)
        return node

    return transform(scalar, written)


def nearest(walk: Walk, node: Node, known: Mapping[int, int]) -> Iterator[tuple[Any, ...]]:
    """Rows that have all of the values but one."""
    ids = list(known)
    for without in reversed(ids):
        rest = {id_: known[id_] for id_ in ids if id_ != without}
        data, _ = walk.asking.rows(node, ids, rest, {})
        yield from (tuple(row) for row in data.T[:FEW].tolist())
