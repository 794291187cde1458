"""Why-not provenance: for each query of a view, the first input or condition that a missing row lacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Join, Node, Query, output_ids
from kpg.provenance import row_text
from kpg.provenance.derivation import QueryExplainer
from kpg.provenance.node_rows import Values
from kpg.provenance.proof_tree import Failure, RuleText
from kpg.runtime.errors import Span
from kpg.runtime.scalar import Column, Scalar, transform

MAX_NEAREST: Final = 3
"""Maximum number of similar rows that are shown."""
MAX_QUERY_LENGTH: Final = 100
"""Maximum number of characters of a query that are shown."""


class AbsenceExplainer:
    """Finds the first condition that a query's missing row fails."""

    def __init__(self, explainer: QueryExplainer, sql: str) -> None:
        self._explainer = explainer
        self._evaluator = explainer.evaluator
        text = " ".join(sql.split())
        self._rule = RuleText(
            text if len(text) <= MAX_QUERY_LENGTH else f"{text[:MAX_QUERY_LENGTH]}…", Span(sql, 0, len(sql))
        )

    def query(self, query: Query, bound: Mapping[int, int]) -> Iterator[Failure]:
        """Yield the failures for values of a query's columns, by their positions."""
        return self.node(
            query.node, {query.columns[position].index: word for position, word in bound.items()}
        )

    def node(self, node: Node, bound: Values) -> Iterator[Failure]:
        """Yield the failures for a row of a node with these values, one per query."""
        match node:
            case (
                bound_tree.Filter()
                | bound_tree.Map()
                | bound_tree.Join()
                | bound_tree.Expand()
                | bound_tree.Scan()
                | bound_tree.Rows()
            ):
                yield from self._block(node, bound, ())
            case bound_tree.SharedScan(name=name, ids=ids):
                if name.startswith("view ") or name in self._evaluator.resolved.loops:
                    yield from self._block(node, bound, ())
                else:
                    query = self._evaluator.resolved.shared_queries[name]
                    yield from self.query(query, {ids.index(id_): word for id_, word in bound.items()})
            case bound_tree.Group(input=source, key_ids=key_ids, keys=keys):
                pairs = zip(key_ids, keys, strict=True)
                tests = [self._evaluator.equals(key, bound[id_]) for id_, key in pairs if id_ in bound]
                yield from self._block(source, {}, tests)
            case bound_tree.GroupingSets(input=source):
                yield from self._block(source, {}, ())
            case bound_tree.Distinct(input=source):
                yield from self.node(source, bound)
            case bound_tree.TopK(input=source):
                yield from self._removed_row(
                    node, source, bound, "the row comes after those that LIMIT keeps"
                )
            case bound_tree.Window(input=source, ids=ids):
                input_values = {id_: word for id_, word in bound.items() if id_ not in ids}
                yield from self._removed_row(
                    node, source, input_values, "a window function gives another value"
                )
            case bound_tree.SetOperation():
                yield from self._set_operation(node, bound)
            case _:
                assert_never(node)

    def _removed_row(self, node: Node, source: Node, bound: Values, reason: str) -> Iterator[Failure]:
        """Yield why a node drops the row if its input has it; otherwise the failures of the input."""
        if self._has_row(source, bound):
            yield self._failure((), reason)
        else:
            yield from self.node(source, bound)

    def _has_row(self, node: Node, bound: Values, tests: Sequence[Scalar] = ()) -> bool:
        return bool(self._evaluator.rows(node, sorted(output_ids(node))[:1], bound, {}, tests)[0].shape[1])

    def _set_operation(self, node: bound_tree.SetOperation, bound: Values) -> Iterator[Failure]:
        sides = [
            (query, {node.ids.index(id_): word for id_, word in bound.items()})
            for query in (node.left, node.right)
        ]
        has_rows = [
            self._has_row(
                query.node, {query.columns[position].index: word for position, word in values.items()}
            )
            for query, values in sides
        ]
        if node.kind == "except" and all(has_rows):
            yield self._failure((), "the second query of EXCEPT has such a row")
            return
        for (query, values), has_row in zip(sides, has_rows, strict=True):
            if not has_row and (node.kind != "except" or query is node.left):
                yield from self.query(query, values)

    # Blocks: one relation after the other, until nothing is left

    def _block(self, node: Node, bound: Values, conditions: Sequence[Scalar]) -> Iterator[Failure]:
        leaves: list[Node] = []
        computed: dict[int, Scalar] = {}
        tests = list(conditions)
        _flatten_block(node, leaves, tests, computed)
        tests += [self._evaluator.equals(self._evaluator.column(id_), word) for id_, word in bound.items()]
        tests = [_inline_computed(test, computed) for test in tests]
        yield self._first_failure(leaves, tests)

    def _first_failure(self, leaves: list[Node], tests: list[Scalar]) -> Failure:
        current: Node | None = None
        while leaves:
            leaf = self._next_input(leaves, tests, current)
            leaves.remove(leaf)
            joined, current = current, leaf if current is None else Join("inner", current, leaf, ())
            applicable = [
                test for test in tests if self._evaluator.used_columns([test]) <= output_ids(current)
            ]
            tests = [test for test in tests if test not in applicable]
            current = bound_tree.Filter(current, tuple(applicable)) if applicable else current
            if not self._has_row(current, {}):
                return self._missing_match(joined, leaf, applicable)
        return self._failure((), "another value")

    def _next_input(self, leaves: Sequence[Node], tests: Sequence[Scalar], current: Node | None) -> Node:
        """Return the input with the most conditions that can be tested."""
        available = output_ids(current) if current is not None else frozenset[int]()

        def testable_conditions(leaf: Node) -> int:
            both = available | output_ids(leaf)
            return sum(
                bool(used & output_ids(leaf)) and used <= both for used in map(self._used_columns, tests)
            )

        return max(leaves, key=testable_conditions)

    def _used_columns(self, test: Scalar) -> frozenset[int]:
        return self._evaluator.used_columns([test])

    def _missing_match(self, joined: Node | None, leaf: Node, tests: Sequence[Scalar]) -> Failure:
        """Return the failure for an input without a match, with its conditions and the nearest rows."""
        values = self._example_row(joined)
        outer_values = {id_: word for id_, word in values.items() if id_ not in output_ids(leaf)}
        conditions = " AND ".join(self._explainer.names.scalar(test, outer_values) for test in tests)
        title = row_text.describe_input(leaf)
        fails = f"a row of {title}" + (f" with {conditions}" if conditions else "")
        return self._failure(
            (*self._joined_rows(joined, values), *self._nearest_rows(leaf, outer_values, tests)), fails
        )

    def _nearest_rows(self, leaf: Node, outer_values: Values, tests: Sequence[Scalar]) -> Iterator[str]:
        """Yield a row of the input that satisfies all conditions but one."""
        if len(tests) < 2 or not isinstance(leaf, bound_tree.Scan | bound_tree.SharedScan):
            return
        for excluded in tests:
            rest = [test for test in tests if test is not excluded]
            data, _ = self._evaluator.rows(leaf, leaf.ids, {}, outer_values, rest)
            for row in data.T[:1].tolist():
                yield self._row_text(leaf, row)
                return

    def _joined_rows(self, joined: Node | None, values: Values) -> Iterator[str]:
        for node in bound_tree.walk(joined) if joined is not None else ():
            if isinstance(node, bound_tree.Scan | bound_tree.SharedScan) and set(node.ids) <= set(values):
                yield self._row_text(node, [values[id_] for id_ in node.ids])

    def _example_row(self, node: Node | None) -> dict[int, int]:
        if node is None:
            return {}
        ids = sorted(output_ids(node))
        data, _ = self._evaluator.rows(node, ids, {}, {})
        return dict(zip(ids, data[:, 0].tolist(), strict=True)) if data.shape[1] else {}

    def _row_text(self, node: bound_tree.Scan | bound_tree.SharedScan, row: Sequence[int]) -> str:
        names = self._explainer.names.columns(node)
        values = [
            row_text.python_value(word, self._evaluator.types[id_], self._evaluator.dictionary)
            for id_, word, _ in zip(node.ids, row, names, strict=False)
        ]
        return row_text.format_row(row_text.describe_input(node), names, values)

    def _failure(self, holds: Sequence[str], fails: str) -> Failure:
        return Failure(self._rule, tuple(holds), fails, 1)


def _flatten_block(node: Node, leaves: list[Node], tests: list[Scalar], computed: dict[int, Scalar]) -> None:
    """Collect the inputs that a block joins, its conditions, and the columns that it computes."""
    if isinstance(node, bound_tree.Filter):
        tests += node.predicates
        _flatten_block(node.input, leaves, tests, computed)
    elif isinstance(node, bound_tree.Map):
        computed.update(zip(node.ids, node.scalars, strict=True))
        _flatten_block(node.input, leaves, tests, computed)
    elif isinstance(node, Join) and node.kind == "inner":
        tests += node.on
        _flatten_block(node.left, leaves, tests, computed)
        _flatten_block(node.right, leaves, tests, computed)
    else:
        leaves.append(node)


def _inline_computed(scalar: Scalar, computed: Mapping[int, Scalar]) -> Scalar:
    """Replace computed columns in a condition by their expressions."""

    def inline(node: Scalar) -> Scalar:
        if isinstance(node, Column) and node.index in computed:
            return _inline_computed(computed[node.index], computed)
        return node

    return transform(scalar, inline)


def nearest_rows(
    explainer: QueryExplainer, node: Node, bound: Mapping[int, int]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows that have all of the values but one."""
    ids = list(bound)
    for excluded in reversed(ids):
        rest = {id_: bound[id_] for id_ in ids if id_ != excluded}
        data, _ = explainer.evaluator.rows(node, ids, rest, {})
        yield from (tuple(row) for row in data.T[:MAX_NEAREST].tolist())
