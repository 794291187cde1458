"""Derivation of a row by each kind of node of a bound query: the input rows that produce it.

It covers groups and grouping sets (the rows of the group) and windows (the current row and the rows
of its frame). ``QueryExplainer`` descends through the nodes of one query.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.algebra.rel import OrderBy
from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Group, GroupingSets, Node, Query, Window, output_ids
from kpg.execute.queries.result_rows import expand, permutation
from kpg.provenance import node_rows, row_text
from kpg.provenance.node_rows import (
    NO_ROUND,
    NO_ROUND_LIMIT,
    Block,
    BlockInput,
    NodeEvaluator,
    OptionalSide,
    RoundLimit,
    Values,
    Words,
)
from kpg.provenance.proof_tree import Kind
from kpg.provenance.row_text import Child, ProofStep, RowKey
from kpg.runtime.functions import WindowResult, lookup_aggregate, window_function
from kpg.runtime.plan.nodes import Bound, Edge, Exclude, Frame, Ranged, Unit, WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar, columns
from kpg.runtime.types import NULL

ArgumentIds = dict[Scalar, int]
"""Ids of the columns that aggregates' arguments are computed in."""


def explain_group(
    explainer: "QueryExplainer", node: Group | GroupingSets, bound: Values, scope: "DerivationScope"
) -> "Children | None":
    """Return the groups with the ``bound`` values, each with its number of rows and some of them.

    Returns the first group only, unless the scope requires all derivations. O(group).
    """
    groups = _matching_groups(explainer, node, bound, scope)
    explained = groups if scope.all_derivations else groups[:1]
    return tuple(_explain_one_group(explainer, node, values, bound, scope) for values in explained) or None


def _explain_one_group(
    explainer: "QueryExplainer",
    node: Group | GroupingSets,
    values: Values,
    bound: Values,
    scope: "DerivationScope",
) -> ProofStep:
    all_keys = range(len(node.keys))
    key_numbers = all_keys if isinstance(node, Group) else _grouping_set_of(explainer, node, values, scope)
    tests = [
        explainer.evaluator.equals(node.keys[number], values[node.key_ids[number]]) for number in key_numbers
    ]
    block = node_rows.split_block(node.input, explainer.evaluator.new_column)
    args: dict[Scalar, None] = {
        arg: None for call in node.aggregates for arg in call.args if not isinstance(arg, Literal)
    }
    block.scalars += [(scalar, ()) for scalar in (*node.keys, *args)]  # they may contain subqueries
    argument_ids = {arg: explainer.evaluator.new_column(arg.type) for arg in args}
    used_ids = explainer.evaluator.used_columns([*node.keys, *args]) & output_ids(node.input)
    ids = list(dict.fromkeys((*explainer.explaining_columns(block, used_ids), *argument_ids.values())))
    source = (
        bound_tree.Map(block.node, tuple(argument_ids.values()), tuple(argument_ids))
        if argument_ids
        else block.node
    )
    data, diff = explainer.evaluator.rows(source, ids, {}, scope.outer, tests)
    order = _example_order(node, bound, argument_ids, ids, data)
    examples = tuple(_explain_examples(explainer, block, ids, data[:, order], scope))
    return ProofStep(Kind.GROUP, _group_text(explainer, node, values, bound), examples, count=int(diff.sum()))


def _matching_groups(
    explainer: "QueryExplainer", node: Group | GroupingSets, bound: Values, scope: "DerivationScope"
) -> list[dict[int, int]]:
    """Return the values of all keys and grouping-set marks, for each group with the ``bound`` values."""
    marks = node.marks if isinstance(node, GroupingSets) else ()
    missing = [id_ for id_ in (*node.key_ids, *marks) if id_ not in bound]
    if not missing and bound:
        return [dict(bound)]
    data, _ = explainer.evaluator.rows(node, missing or list(node.ids), bound, scope.outer)
    return [{**bound, **dict(zip(missing or node.ids, row, strict=True))} for row in data.T.tolist()]


def _grouping_set_of(
    explainer: "QueryExplainer", node: GroupingSets, values: Values, scope: "DerivationScope"
) -> Sequence[int]:
    """Return the keys of the first grouping set that has the group."""
    for number, positions in enumerate(node.sets):
        others = [id_ for position, id_ in enumerate(node.key_ids) if position not in positions]
        if any(values[mark] != node.mark_values[i][number] for i, mark in enumerate(node.marks)):
            continue
        if any(values[id_] != NULL for id_ in others):
            continue
        ids = tuple(node.key_ids[position] for position in positions)
        single_set = Group(
            node.input, ids, tuple(node.keys[position] for position in positions), node.ids, node.aggregates
        )
        bound = {id_: values[id_] for id_ in values if id_ in {*ids, *node.ids}}
        if explainer.evaluator.rows(single_set, [*ids, *bound], bound, scope.outer)[0].shape[1]:
            return positions
    return node.sets[0]


def _example_order(
    node: Group | GroupingSets, bound: Values, argument_ids: ArgumentIds, ids: Sequence[int], data: Words
) -> NDArray[np.int64]:
    """Return the order of examples: rows with the extreme value first, rows with NULL arguments last."""
    penalty = np.zeros(data.shape[1], np.int64)
    for id_, call in zip(node.ids, node.aggregates, strict=True):
        if not call.args or call.args[0] not in argument_ids:
            continue
        words = data[ids.index(argument_ids[call.args[0]])]
        penalty += words == NULL
        if lookup_aggregate(call.function).selects_operand and id_ in bound:
            penalty += words != bound[id_]
    return np.argsort(penalty, kind="stable")


def _explain_examples(
    explainer: "QueryExplainer", block: Block, ids: Sequence[int], data: Words, scope: "DerivationScope"
) -> Iterator[Child]:
    """Yield the explanations of the first rows of a group."""
    remaining = explainer.context.sample
    for values in explainer.candidates(block, ids, data, scope):
        if remaining == 0:
            return
        children = explainer.explain_joined_row(
            block, values, scope.for_counted_rows(explainer.context.sample)
        )
        if children is None:
            continue
        remaining = remaining if remaining is None else remaining - 1
        if len(children) == 1:
            yield children[0]
        else:
            yield ProofStep(Kind.STEP, "together", children)


def _group_text(
    explainer: "QueryExplainer", node: Group | GroupingSets, values: Values, bound: Values
) -> str:
    """Return the values of keys and bound aggregates, such as ``sum(total) = 12, count(*) = 3``."""
    parts = [
        f"{call.text or call.function} = {explainer.value_text(id_, bound[id_])}"
        for id_, call in zip(node.ids, node.aggregates, strict=True)
        if id_ in bound
    ]
    keys = [explainer.value_text(id_, values[id_]) for id_ in node.key_ids]
    group_by = f"GROUP BY {', '.join(keys)}" if keys else ""
    return "; ".join(part for part in (group_by, ", ".join(parts)) if part) or "a group"


RankFunction = Callable[[int, Words], Words]
"""Returns the words of a column as numbers in the order of its values."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The sorted rows of a partition: columns by their ids, and the number of each row's peer group."""

    columns: Mapping[int, Words]
    peers: Words
    rank: RankFunction

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.peers.shape[0])


def contributing_rows(call: WindowCall, partition: Partition, position: int) -> Sequence[int]:
    """Return the positions of the rows that determine a window call's result at ``position``."""
    function = window_function(call.function)
    all_rows = range(partition.size)
    if function is None:
        return frame_rows(call.frame, partition, position)
    match function.answer:
        case WindowResult.ROW_NUMBER:
            return range(position + 1)
        case WindowResult.RANK | WindowResult.DENSE_RANK:
            return np.flatnonzero(partition.peers < partition.peers[position]).tolist()
        case WindowResult.PERCENT_RANK | WindowResult.CUME_DIST | WindowResult.NTILE:
            return all_rows
        case WindowResult.LAG | WindowResult.LEAD:
            offset = _offset_argument(call, partition, position, 1)
            if offset is None:
                return ()
            target = position - offset if function.answer is WindowResult.LAG else position + offset
            return (target,) if 0 <= target < partition.size else ()
        case WindowResult.FIRST_VALUE:
            return frame_rows(call.frame, partition, position)[:1]
        case WindowResult.LAST_VALUE:
            return frame_rows(call.frame, partition, position)[-1:]
        case WindowResult.NTH_VALUE:
            number = _offset_argument(call, partition, position, 1)
            rows = frame_rows(call.frame, partition, position)
            return rows[number - 1 : number] if number else ()
        case _:
            assert_never(function.answer)


def _offset_argument(call: WindowCall, partition: Partition, position: int, default: int) -> int | None:
    """Return the second argument: the offset, or the row number. None for NULL."""
    arg = call.args[1] if len(call.args) > 1 else Literal(default, call.type)
    if isinstance(arg, Column):
        word = int(partition.columns[arg.index][position])
        return None if word == NULL else word
    return arg.value if isinstance(arg, Literal) and isinstance(arg.value, int) else None


def frame_rows(frame: Frame, partition: Partition, position: int) -> list[int]:
    """Return the positions of the rows in the frame of a row."""
    first, last = (_frame_bound(frame, bound, partition, position) for bound in (frame.start, frame.end))
    start, stop = max(first[0], 0), min(last[1], partition.size)
    rows = np.arange(start, max(stop, start))
    is_other_group = partition.peers[rows] != partition.peers[position]
    match frame.exclude:
        case Exclude.NO_OTHERS:
            return rows.tolist()
        case Exclude.CURRENT_ROW:
            return rows[rows != position].tolist()
        case Exclude.GROUP:
            return rows[is_other_group].tolist()
        case Exclude.TIES:
            return rows[is_other_group | (rows == position)].tolist()
        case _:
            assert_never(frame.exclude)


def _frame_bound(frame: Frame, bound: Bound, partition: Partition, position: int) -> tuple[int, int]:
    """Return the position of a bound as a start, and the position after it as an end."""
    if bound.edge is Edge.UNBOUNDED_PRECEDING:
        return 0, 0
    if bound.edge is Edge.UNBOUNDED_FOLLOWING:
        return partition.size, partition.size
    if frame.unit is Unit.ROWS:
        row = position + _bound_offset(bound, partition, position)
        return row, row + 1
    if frame.unit is Unit.RANGE and bound.edge is not Edge.CURRENT_ROW and frame.ranged is not None:
        return _range_bound(frame.ranged, bound, partition, position)
    peer_group = int(partition.peers[position])
    if bound.edge is not Edge.CURRENT_ROW:
        peer_group += _bound_offset(bound, partition, position)
    return (
        int(np.searchsorted(partition.peers, peer_group, "left")),
        int(np.searchsorted(partition.peers, peer_group, "right")),
    )


def _bound_offset(bound: Bound, partition: Partition, position: int) -> int:
    if bound.edge is Edge.CURRENT_ROW:
        return 0
    offset = bound.offset if bound.column is None else int(partition.columns[bound.column][position])
    return -offset if bound.edge is Edge.PRECEDING else offset


def _range_bound(ranged: Ranged, bound: Bound, partition: Partition, position: int) -> tuple[int, int]:
    """Return a RANGE bound by the values of the sort column. NULLs are peers of each other only."""
    words = partition.columns[ranged.column]
    non_null = np.flatnonzero(words != NULL)
    if words[position] == NULL:
        peer_group = partition.peers[position]
        left = np.searchsorted(partition.peers, peer_group, "left")
        return int(left), int(np.searchsorted(partition.peers, peer_group, "right"))
    if bound.column is not None:
        value = partition.columns[bound.column][position : position + 1]
        ranks = partition.rank(ranged.column, np.concatenate((words[non_null], value)))
        values, limit = ranks[:-1], int(ranks[-1])
    else:
        sign = 1 if (bound.edge is Edge.FOLLOWING) != ranged.descending else -1
        values, limit = words[non_null], int(words[position]) + sign * bound.offset
    if ranged.descending:
        values, limit = -values, -limit
    offset = int(non_null[0])
    return (
        offset + int(np.searchsorted(values, limit, "left")),
        offset + int(np.searchsorted(values, limit, "right")),
    )


def explain_window(
    explainer: "QueryExplainer", node: Window, bound: Values, scope: "DerivationScope"
) -> "Children | None":
    """Return the input row, and for each bound call the rows that determine its result. O(partition)."""
    column_ids = node_rows.explaining_columns(node, frozenset(bound))
    data, _ = explainer.evaluator.rows(node, column_ids, bound, scope.outer)
    if not data.shape[1]:
        return None
    values = dict(zip(column_ids, data[:, 0].tolist(), strict=True))
    row = {id_: word for id_, word in values.items() if id_ not in node.ids}
    row_children = explainer.node(node.input, row, scope)
    if row_children is None:
        return None
    ids = list(row)
    rows = _sort_partition(explainer, node, ids, row, scope)
    partition = Partition(
        dict(zip(ids, rows, strict=True)),
        _peer_groups(explainer, node, ids, rows),
        explainer.evaluator.rank_words,
    )
    position = int(np.argmax(np.all(rows == np.array([[row[id_]] for id_ in ids], np.int64), axis=0)))
    children = list[Child](row_children)
    for id_, call in zip(node.ids, node.calls, strict=True):
        if id_ in bound:
            positions = contributing_rows(call, partition, position)
            if explainer.context.sample is None:
                positions = _fill_gaps(positions, position)
            examples = _explain_window_rows(explainer, node, ids, rows, positions, scope)
            text = f"{call.text or call.function} = {explainer.value_text(id_, bound[id_])}"
            children.append(ProofStep(Kind.GROUP, text, examples, count=len(positions)))
    return tuple(children)


def _fill_gaps(positions: Sequence[int], position: int) -> Sequence[int]:
    """Return the positions with those between them and the row.

    Some frames depend on how far away a row is, so rows in between matter.
    """
    if not positions:
        return positions
    span = range(min(position, *positions), max(position, *positions) + 1)
    return [other for other in span if other != position or other in positions]


def _sort_partition(
    explainer: "QueryExplainer", node: Window, ids: Sequence[int], row: Values, scope: "DerivationScope"
) -> Words:
    """Return the rows of the partition, sorted."""
    bound = {column.index: row[column.index] for column in node.partition}
    rows = expand(*explainer.evaluator.rows(node.input, ids, bound, scope.outer))
    keys = (*node.order, *node.ties)
    if not keys:
        return rows
    order = tuple(OrderBy(ids.index(key.column.index), key.descending, key.nulls_first) for key in keys)
    types = [explainer.evaluator.types[id_] for id_ in ids]
    return np.ascontiguousarray(rows[:, permutation(rows, order, types, explainer.evaluator.dictionary)])


def _peer_groups(explainer: "QueryExplainer", node: Window, ids: Sequence[int], rows: Words) -> Words:
    """Return the peer group's number of each sorted row."""
    size = rows.shape[1]
    starts_group = np.zeros(size, np.bool_)
    for key in node.order:
        words = explainer.evaluator.rank_words(key.column.index, rows[ids.index(key.column.index)])
        starts_group[1:] |= words[1:] != words[:-1]
    return np.cumsum(starts_group)


def _explain_window_rows(
    explainer: "QueryExplainer",
    node: Window,
    ids: Sequence[int],
    rows: Words,
    positions: Sequence[int],
    scope: "DerivationScope",
) -> "Children":
    """Return explanations of some of the rows at these positions."""
    explanations: list[Child] = []
    for position in positions[: explainer.context.sample]:
        values = dict(zip(ids, rows[:, position].tolist(), strict=True))
        children = explainer.node(node.input, values, scope.for_counted_rows(explainer.context.sample)) or ()
        explanations.append(children[0] if len(children) == 1 else ProofStep(Kind.STEP, "together", children))
    return tuple(explanations)


Children = tuple[Child, ...]


@dataclass(frozen=True, slots=True)
class DerivationScope:
    """The context in which a row of a query is explained.

    ``outer`` are the values of outer columns. ``round_limit`` limits the rows of a recursion. With
    ``all_derivations``, all derivations of a repeated row are explained, because the result counts
    them.
    """

    outer: Values
    round_limit: RoundLimit = NO_ROUND_LIMIT
    all_derivations: bool = False

    def for_counted_rows(self, sample: int | None) -> "DerivationScope":
        """Return the scope for rows that are counted. Without a sample size, all are explained."""
        return replace(self, all_derivations=sample is None)


class ExplanationContext(Protocol):
    """The relations that an explanation reads."""

    @property
    def sample(self) -> int | None:
        """Maximum number of an aggregate's rows that are explained; None for all."""

    def columns_of(self, name: str) -> Sequence[str]:
        """Return the names of a relation's columns."""

    def explain_scan(
        self, node: bound_tree.Scan, row: tuple[int, ...], *, all_derivations: bool = False
    ) -> Children:
        """Return the explanation of a scanned row."""

    def explain_view_row(self, name: str, row: tuple[int, ...], *, all_derivations: bool = False) -> Children:
        """Return the explanation of a view's row."""


class QueryExplainer:
    """Explains rows of the nodes of one bound query."""

    def __init__(self, context: ExplanationContext, evaluator: NodeEvaluator, number: int) -> None:
        self.context = context
        self.evaluator = evaluator
        self.number = number
        self.names = row_text.ColumnNames(evaluator.resolved, evaluator.dictionary, context.columns_of)
        for query in (evaluator.resolved.query, *evaluator.resolved.shared_queries.values()):
            self.names.add(query.node)
        for subquery in evaluator.resolved.subqueries.values():
            self.names.add(subquery.query.node)

    def query(self, query: Query, row: Sequence[int], scope: DerivationScope) -> Children | None:
        """Return what a row of a query is derived from, or None if there is no such row."""
        pairs = zip(query.columns, row, strict=False)
        return self.node(query.node, {column.index: word for column, word in pairs}, scope)

    def node(self, node: Node, bound: Values, scope: DerivationScope) -> Children | None:
        """Return what a row of a node with the ``bound`` values is derived from.

        Returns None if there is no such row in the scope.
        """
        match node:
            case bound_tree.Filter() | bound_tree.Map() | bound_tree.Join() | bound_tree.Expand():
                return self._block(node, bound, scope)
            case bound_tree.Scan() | bound_tree.SharedScan() | bound_tree.Rows():
                return self._block(node, bound, scope)
            case bound_tree.Group() | bound_tree.GroupingSets():
                return explain_group(self, node, bound, scope)
            case bound_tree.Distinct(input=source, columns=output_columns):
                output_ids = {column.index for column in output_columns}
                output_values = {id_: bound[id_] for id_ in bound if id_ in output_ids}
                return self.node(source, output_values, replace(scope, all_derivations=False))
            case bound_tree.TopK():
                return self._explain_top_k(node, bound, scope)
            case bound_tree.Window():
                return explain_window(self, node, bound, scope)
            case bound_tree.SetOperation():
                return self._explain_set_operation(node, bound, scope)
            case _:
                assert_never(node)

    # Blocks

    def _block(self, node: Node, bound: Values, scope: DerivationScope) -> Children | None:
        """Return the joined rows of the first derivation, or of all of them."""
        block = node_rows.split_block(node, self.evaluator.new_column)
        ids = self.explaining_columns(block, frozenset(bound))
        data, diff = self.evaluator.rows(block.node, ids, bound, scope.outer)
        count = int(diff.sum())
        derivations: list[Child] = []
        for values in self.candidates(block, ids, data, scope):
            children = self.explain_joined_row(block, values, scope)
            if children is None:
                continue
            if count == 1:
                return children
            if not scope.all_derivations:
                return (ProofStep(Kind.STEP, f"one of {count} such rows", children, count=count),)
            derivations += children if len(children) == 1 else (ProofStep(Kind.STEP, "together", children),)
        return (
            (ProofStep(Kind.STEP, f"{count} such rows", tuple(derivations), count=count),)
            if derivations
            else None
        )

    def explaining_columns(self, block: Block, needed: frozenset[int]) -> list[int]:
        """Return the columns of a block's rows that explain them."""
        used_ids = self.evaluator.used_columns([scalar for scalar, _ in block.scalars])
        available = frozenset(id_ for piece in block.inputs for id_ in output_ids(piece.node))
        lateral = frozenset[int]().union(
            *(bound_tree.free_ids(piece.node, self.evaluator.resolved.subqueries) for piece in block.inputs)
        )
        needed = needed | (used_ids & available)
        ids = [id_ for piece in block.inputs for id_ in node_rows.explaining_columns(piece.node, needed)]
        return list(dict.fromkeys((*ids, *block.marks, *sorted((needed | lateral) & available))))

    def candidates(
        self, block: Block, ids: Sequence[int], data: Words, scope: DerivationScope
    ) -> Iterator[Values]:
        """Yield a block's rows as values, except those that the round limit excludes."""
        is_allowed = np.ones(data.shape[1], np.bool_)
        positions = {id_: number for number, id_ in enumerate(ids)}
        for piece in block.inputs:
            node = piece.node
            if isinstance(node, bound_tree.SharedScan) and node.name in scope.round_limit.names:
                rows = np.ascontiguousarray(data[[positions[id_] for id_ in node.ids]])
                is_absent = self._absent(piece, data, positions)
                is_allowed &= is_absent | scope.round_limit.allows(node.name, rows)
        for position in np.flatnonzero(is_allowed).tolist():
            yield dict(zip(ids, data[:, position].tolist(), strict=True))

    def _absent(self, piece: BlockInput, data: Words, positions: Mapping[int, int]) -> NDArray[np.bool_]:
        is_absent = np.zeros(data.shape[1], np.bool_)
        for mark in piece.marks:
            is_absent |= data[positions[mark]] == NULL
        return is_absent

    def explain_joined_row(self, block: Block, values: Values, scope: DerivationScope) -> Children | None:
        """Return the explanations of a block row's inputs, or None if an input has none in the scope."""
        outer = {**scope.outer, **values}
        explanations: dict[object, Child] = {}
        for piece in block.inputs:
            if any(values[mark] == NULL for mark in piece.marks):
                continue
            children = self._explain_input(piece.node, values, replace(scope, outer=outer))
            if children is None:
                return None
            explanations.update(
                (child if isinstance(child, RowKey) else id(child), child) for child in children
            )
        steps = [
            *self._absent_sides(block, values, outer),
            *self._explain_subqueries(block, values, outer, scope),
        ]
        return (*explanations.values(), *steps)

    def _absent_sides(self, block: Block, values: Values, outer: Values) -> Iterator[ProofStep]:
        for absent in block.optional_sides:
            if values[absent.mark] == NULL and all(values[mark] != NULL for mark in absent.outer_marks):
                yield ProofStep(Kind.NEGATION, self._absence_text(absent, outer))

    def _absence_text(self, absent: OptionalSide, outer: Values) -> str:
        side_ids = output_ids(absent.side)
        bound = {id_: word for id_, word in outer.items() if id_ not in side_ids}
        tests = " AND ".join(self.names.scalar(test, bound) for test in absent.on if columns(test))
        return f"no row of {row_text.describe_input(absent.side)}" + (f" with {tests}" if tests else "")

    def _explain_input(self, node: Node, values: Values, scope: DerivationScope) -> Children | None:
        """Return the row of a block's input, or what it is derived from."""
        row_values = {id_: values[id_] for id_ in output_ids(node) if id_ in values}
        if isinstance(node, bound_tree.Scan):
            return self.context.explain_scan(
                node, tuple(row_values[id_] for id_ in node.ids), all_derivations=scope.all_derivations
            )
        if isinstance(node, bound_tree.SharedScan):
            return self._explain_shared(node, row_values, scope)
        if isinstance(node, bound_tree.Rows):
            row = tuple(self.value_text(id_, row_values[id_]) for id_ in node.ids)
            return (ProofStep(Kind.CONSTRAINT, f"VALUES ({', '.join(row)})"),)
        if isinstance(node, bound_tree.Expand):
            results = ", ".join(self.value_text(id_, row_values[id_]) for id_ in node.ids)
            text = ", ".join(call.text or call.function for call in node.calls)
            return (ProofStep(Kind.CONSTRAINT, f"{text} gives {results}"),)
        return self.node(node, row_values, scope)

    def _explain_shared(
        self, node: bound_tree.SharedScan, row_values: Values, scope: DerivationScope
    ) -> Children | None:
        row = tuple(row_values[id_] for id_ in node.ids)
        if node.name.startswith("view "):
            return self.context.explain_view_row(
                node.name.removeprefix("view "), row, all_derivations=scope.all_derivations
            )
        if node.name in self.evaluator.resolved.loops:
            has_ranks = scope.round_limit.ranks.get(node.name) is not None
            round_limit = 0 if has_ranks or scope.round_limit.round == NO_ROUND else scope.round_limit.round
            return (RowKey(self.number, node.name, row, round_limit, all_derivations=scope.all_derivations),)
        query = self.evaluator.resolved.shared_queries[node.name]
        steps = self.query(query, row, replace(scope, outer={}))
        return None if steps is None else (self.row_step(node.name, query, row, steps),)

    def row_step(self, name: str, query: Query, row: Sequence[int], children: Children) -> ProofStep:
        """Return the step of a row of a WITH query."""
        values = [
            row_text.python_value(word, column.type, self.evaluator.dictionary)
            for word, column in zip(row, query.columns, strict=True)
        ][: len(query.names)]
        title = row_text.display_name(name)
        text = row_text.format_row(title, query.names, values)
        return ProofStep(Kind.VIEW, text, children, title, tuple(values), query.names)

    def value_text(self, id_: int, word: int) -> str:
        """Return a value as text."""
        return row_text.value_text(
            row_text.python_value(word, self.evaluator.types[id_], self.evaluator.dictionary)
        )

    # Subqueries

    def _explain_subqueries(
        self, block: Block, values: Values, outer: Values, scope: DerivationScope
    ) -> Iterator[ProofStep]:
        """Yield what the subqueries in a block's expressions return for a row."""
        visited: set[int] = set()
        for scalar, marks in block.scalars:
            if any(values[mark] == NULL for mark in marks):
                continue
            for id_ in sorted(columns(scalar)):
                if id_ in self.evaluator.resolved.subqueries and id_ not in visited:
                    visited.add(id_)
                    yield self._explain_subquery(
                        self.evaluator.resolved.subqueries[id_], DerivationScope(outer, scope.round_limit)
                    )

    def _explain_subquery(self, subquery: bound_tree.Subquery, scope: DerivationScope) -> ProofStep:
        node = subquery.query.node
        subquery_ids = output_ids(node)
        tests: tuple[Scalar, ...] = subquery.comparison
        if tests:
            node = bound_tree.Filter(node, tests)
        children = self.node(node, {}, scope)
        text = self._subquery_text(subquery)
        if children is None:
            bound = {id_: word for id_, word in scope.outer.items() if id_ not in subquery_ids}
            where = " AND ".join(self.names.scalar(test, bound) for test in tests)
            return ProofStep(Kind.NEGATION, f"no row in {text}" + (f" with {where}" if where else ""))
        return ProofStep(Kind.STEP, f"a row in {text}", children)

    def _subquery_text(self, subquery: bound_tree.Subquery) -> str:
        span = subquery.locate()
        if span is None:
            return f"the subquery of {row_text.describe_input(subquery.query.node)}"
        text = " ".join(span.source[span.start : span.end].split())
        return (
            text
            if len(text) <= 2 * row_text.MAX_VALUE_LENGTH
            else f"{text[: 2 * row_text.MAX_VALUE_LENGTH]}…"
        )

    # LIMIT and sets

    def _explain_top_k(self, node: bound_tree.TopK, bound: Values, scope: DerivationScope) -> Children | None:
        """Return the input row with its sort columns, and some of the rows that OFFSET skips."""
        ids = node_rows.explaining_columns(node, frozenset(bound))
        data, _ = self.evaluator.rows(node, ids, bound, scope.outer)
        if data.shape[1]:
            bound = dict(zip(ids, data[:, 0].tolist(), strict=True))
        children = self.node(node.input, bound, scope)
        if children is None:
            return None
        skipped = self._skipped_rows(node, ids, bound, scope) if node.offset else ()
        return (ProofStep(Kind.STEP, self._top_text(node, bound), (*children, *skipped)),)

    def _skipped_rows(
        self, node: bound_tree.TopK, ids: Sequence[int], bound: Values, scope: DerivationScope
    ) -> Children:
        """Return some of the rows that OFFSET skips."""
        tests = [self.evaluator.equals(column, bound[column.index]) for column in node.group]
        skipped = replace(node, limit=node.offset, offset=0)
        data, diff = self.evaluator.rows(skipped, ids, {}, scope.outer, tests)
        examples = list[Child]()
        for row in data[:, : self.context.sample].T.tolist():
            children = self.node(
                node.input, dict(zip(ids, row, strict=True)), scope.for_counted_rows(self.context.sample)
            )
            if children is not None:
                examples += children if len(children) == 1 else (ProofStep(Kind.STEP, "together", children),)
        return (ProofStep(Kind.GROUP, f"OFFSET {node.offset}", tuple(examples), count=int(diff.sum())),)

    def _top_text(self, node: bound_tree.TopK, bound: Values) -> str:
        limit = "" if node.limit is None else f"among the first {node.limit}"
        if node.offset:
            limit += f" after {node.offset}" if limit else f"after the first {node.offset}"
        keys = [self._key_text(key, bound) for key in node.order]
        return limit + (f" by {', '.join(keys)}" if keys else "")

    def _key_text(self, key: bound_tree.SortKey, bound: Values) -> str:
        id_ = key.column.index
        text = self.names.scalar(key.column, {}) + (" DESC" if key.descending else "")
        return f"{text} = {self.value_text(id_, bound[id_])}" if id_ in bound else text

    def _explain_set_operation(
        self, node: bound_tree.SetOperation, bound: Values, scope: DerivationScope
    ) -> Children | None:
        sides = [
            {query.columns[node.ids.index(id_)].index: word for id_, word in bound.items()}
            for query in (node.left, node.right)
        ]
        scope = replace(scope, all_derivations=scope.all_derivations and node.all)
        # EXCEPT ALL may remove some of the equal rows; it is unknown which remain.
        needs_all = node.kind == "except" and node.all and self.context.sample is None
        left = self.node(
            node.left.node, sides[0], replace(scope, all_derivations=scope.all_derivations or needs_all)
        )
        operator = node.kind.upper() + (" ALL" if node.all else "")
        if node.kind == "union":
            if left is not None and not scope.all_derivations:
                return (ProofStep(Kind.STEP, f"{operator}: the first query", left),)
            right = self.node(node.right.node, sides[1], scope)
            named_sides = (("first", left), ("second", right))
            steps = [
                ProofStep(Kind.STEP, f"{operator}: the {ordinal} query", side)
                for ordinal, side in named_sides
                if side
            ]
            return tuple(steps) or None
        if left is None:
            return None
        if node.kind == "intersect":
            right = self.node(node.right.node, sides[1], scope) or ()
            first, second = (
                ProofStep(Kind.STEP, f"{operator}: the {ordinal} query", side)
                for ordinal, side in (("first", left), ("second", right))
            )
            return (first, second)
        fewer = "fewer such rows" if node.all else "no such row"
        return (*left, ProofStep(Kind.NEGATION, f"{fewer} in the second query of {operator}"))

    def column(self, id_: int) -> Column:
        """Return the column with an id."""
        return self.evaluator.column(id_)
