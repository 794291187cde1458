"""Rendering: a physical plan becomes operators, those that exist already being shared.

Two nodes that compute the same thing from the same inputs have the same *fingerprint*; the registry
maps fingerprints to the live operators, so that a new view builds only what nobody has built before it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.data.dictionary import Dictionary
from kpg.runtime.data.table import Table
from kpg.runtime.dataflow.operator import Cursor, Operator, Place
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import groups as group_kernels
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.basic import BasicReduce, evaluators
from kpg.runtime.operators.join import Join, JoinPath, Stage
from kpg.runtime.operators.linear import Concat, Constant, Linear, Negate
from kpg.runtime.operators.rangejoin import RangeJoin
from kpg.runtime.operators.reduce import Distinct, Reduce, Single
from kpg.runtime.operators.source import Source
from kpg.runtime.operators.textorder import ExactOrder
from kpg.runtime.operators.topk import TopK
from kpg.runtime.plan import Mfp
from kpg.runtime.program import Program
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, columns, remap
from kpg.runtime.trace.groups import Accumulator, GroupTable
from kpg.runtime.trace.handle import TraceHandle
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, BOOLEAN, NULL

Rowids = tuple[str | None, ...]
"""For each column, the table whose rowids it holds, if any."""

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class Context(Protocol):
    """What rendering needs of the worker."""

    dictionary: Dictionary
    cursor: Cursor

    def store(self, table: str) -> Table: ...
    def source_identity(self, table: str) -> str: ...
    def view_output(self, view: str) -> Operator: ...
    def next_position(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Rendered:
    """The operators of a plan, one for each node, and which of them are new, in dependency order."""

    operators: tuple[Operator, ...]
    new: tuple[Operator, ...]


def render(source: plan.Plan, registry: Mapping[str, Operator], context: Context) -> Rendered:
    """Operators for all nodes; new ones are connected to their inputs but not yet hydrated."""
    built: list[Operator] = []
    new: list[Operator] = []
    found: dict[str, Operator] = {}
    for node in source.nodes:
        fingerprint = _fingerprint(node, built, context)
        operator = registry.get(fingerprint) or found.get(fingerprint)
        if isinstance(node, plan.Import):
            operator = context.view_output(node.view)
        elif isinstance(node, plan.Arrange) and isinstance(built[node.input], Arrange):
            operator = built[node.input]
        if operator is None:
            name = describe(node, source.nodes, context)
            operator = _build(node, _Base(fingerprint, name, context), built, context)
            found[fingerprint] = operator
            new.append(operator)
            for port, stream in enumerate(_streams(node, built)):
                stream.consumers.append((operator, port))
        built.append(operator)
    return Rendered(tuple(built), tuple(new))


def disconnect(operators: tuple[Operator, ...]) -> None:
    """Take operators out of the consumer lists of all others."""
    gone = set(operators)
    for operator in operators:
        for source in operator.inputs:
            source.consumers = [(c, port) for c, port in source.consumers if c not in gone]


def _streams(node: plan.Node, built: list[Operator]) -> list[Operator]:
    """The operators whose output stream arrives at ports 0, 1, ... of the node."""
    match node:
        case plan.Concat(inputs=refs) | plan.Join(inputs=refs):
            return [built[ref] for ref in refs]
        case plan.RangeJoin(left=left, right=right):
            return [built[left], built[right]]
        case _:
            return [built[ref] for ref in plan.inputs(node)]


def _fingerprint(node: plan.Node, built: list[Operator], context: Context) -> str:
    """A digest of the node with its inputs' fingerprints in place of their positions."""

    def name(ref: int) -> str:
        return built[ref].place.fingerprint

    match node:
        case plan.Source(table=table):
            text = context.source_identity(table)
        case plan.Import(view=view):
            return context.view_output(view).place.fingerprint
        case plan.Arrange(input=ref):
            text = name(ref)
        case plan.Join():
            text = _join_identity(node, built)
        case _:
            text = "".join(name(ref) for ref in plan.inputs(node)) + _parameters(node)
    return hashlib.sha256(f"{type(node).__name__}|{text}".encode()).hexdigest()[:24]


def _join_identity(node: plan.Join, built: list[Operator]) -> str:
    """The join with fingerprints in place of references."""
    parts = [built[ref].place.fingerprint for ref in node.inputs]
    for path in node.paths:
        parts.append(repr(path.mfp))
        for lookup in path.lookups:
            arrangement = built[lookup.arrangement].place.fingerprint
            parts.append(f"{arrangement}{lookup.relation}{lookup.key}{lookup.mfp!r}")
    return "|".join(parts)


def _parameters(node: plan.Node) -> str:
    """The node's own parameters, without its inputs."""
    match node:
        case plan.Constant() as constant:
            return repr(constant)
        case plan.Linear(mfp=mfp):
            return repr(mfp)
        case plan.Concat(inputs=refs):
            return str([refs.index(ref) for ref in refs])
        case plan.RangeJoin(key=key, comparison=comparison, mfp=mfp):
            return f"{key}{comparison}{mfp!r}"
        case plan.Reduce(key=key, aggregates=aggregates):
            return f"{key}{[(a.function, a.argument, a.type) for a in aggregates]}"
        case plan.TopK(group=group, limit=limit, offset=offset, exact=exact):
            return f"{group},{limit},{offset},{exact}"
        case plan.BasicReduce(key=key, aggregates=basics):
            return f"{key}{basics!r}"
        case plan.Single(key=key):
            return str(key)
        case _:
            return ""


def _build(node: plan.Node, base: "_Base", built: list[Operator], context: Context) -> Operator:
    """One operator: one line per node, the work being in its constructor or a helper."""
    match node:
        case plan.Source(table=table):
            return Source(base.over((), (table,)), table=context.store(table))
        case plan.Constant():
            data = _constant(node, context.dictionary)
            return Constant(base.over((), (None,) * data.shape[0]), data=data)
        case plan.Linear(input=ref, mfp=mfp):
            return Linear(
                base.over((built[ref],), through(mfp, built[ref].place.rowids)), program=Program(mfp, context)
            )
        case plan.Concat(inputs=refs):
            return Concat(
                base.over(tuple(built[r] for r in refs), _either([built[r].place.rowids for r in refs]))
            )
        case plan.Negate(input=ref):
            return Negate(base.over((built[ref],), built[ref].place.rowids))
        case plan.Arrange(input=ref, key=key):
            spine = Spine(built[ref].width, 1)
            return Arrange(
                base.over((built[ref],), built[ref].place.rowids),
                key=key,
                spine=spine,
                handle=TraceHandle(spine),
            )
        case plan.Join():
            return _join(node, base, built, context)
        case plan.RangeJoin():
            return _range_join(node, base, built, context)
        case plan.Reduce(input=ref, key=key, aggregates=aggregates):
            groups = GroupTable(key, tuple(_accumulator(a) for a in aggregates))
            return Reduce(
                base.over((built[ref],), built[ref].place.rowids[:key] + (None,) * len(aggregates)),
                table=groups,
                aggregates=aggregates,
            )
        case plan.Distinct(input=ref) | plan.Threshold(input=ref):
            only = isinstance(node, plan.Distinct)
            return Distinct(
                base.over((built[ref],), built[ref].place.rowids),
                table=GroupTable(built[ref].width, ()),
                distinct=only,
            )
        case plan.Single(input=ref, key=key):
            return Single(base.over((built[ref],), built[ref].place.rowids), table=GroupTable(key, ()))
        case plan.TopK(input=ref, group=group, limit=limit, offset=offset, exact=texts):
            source = _arrangement(built[ref])
            order = ExactOrder(texts, context.dictionary) if texts and limit != 0 else None
            return TopK(
                base.over((source,), source.place.rowids),
                arrangement=source,
                group=group,
                limit=limit,
                offset=offset,
                exact=order,
            )
        case plan.BasicReduce(input=ref, key=key, aggregates=basics):
            source = _arrangement(built[ref])
            functions = evaluators(basics, context.dictionary)
            return BasicReduce(
                base.over((source,), source.place.rowids[:key] + (None,) * len(basics)),
                arrangement=source,
                group=key,
                evaluators=functions,
            )
        case plan.Import():
            raise InternalError("an import has no operator of its own")
        case _:
            assert_never(node)


@dataclass(frozen=True, slots=True)
class _Base:
    fingerprint: str
    description: str
    context: Context

    def over(self, inputs: tuple[Operator, ...], rowids: Rowids) -> Place:
        """The new operator's place."""
        position = self.context.next_position()
        return Place(self.fingerprint, self.description, position, inputs, self.context.cursor, rowids)


def through(mfp: Mfp, rowids: Rowids) -> Rowids:
    """Which table's rowids the outputs of an mfp hold, given the same of its inputs."""
    return tuple(rowids[s.index] if isinstance(s, Column) else None for s in mfp.outputs)


def _either(inputs: Sequence[Rowids]) -> Rowids:
    """Rowid columns of a union, where a branch may have literal NULLs in such a column."""
    return tuple(next((name for name in names if name), None) for names in zip(*inputs, strict=True))


def _arrangement(operator: Operator) -> Arrange:
    if not isinstance(operator, Arrange):
        raise InternalError(f"{operator.place.description} is looked up but is not an arrangement")
    return operator


def _constant(node: plan.Constant, dictionary: Dictionary) -> NDArray[np.int64]:
    def word(value: int | str | None) -> int:
        if value is None:
            return NULL
        return dictionary.code(value) if isinstance(value, str) else value

    data = np.empty((len(node.types), len(node.rows)), np.int64)
    for i, row in enumerate(node.rows):
        for c, value in enumerate(row):
            data[c, i] = word(value)
    return data


def _accumulator(aggregate: plan.Aggregate) -> Accumulator:
    """The state of one aggregate; ``count(*)`` reads the group's own count through column -1."""
    if aggregate.function == "count":
        return Accumulator(group_kernels.COUNT, -1 if aggregate.argument is None else aggregate.argument)
    if aggregate.function != "sum" or aggregate.argument is None:
        raise InternalError(f"{aggregate.function} is not an accumulable aggregate")
    kind = group_kernels.SUM_DOUBLE if aggregate.type.is_float else group_kernels.SUM
    return Accumulator(kind, aggregate.argument)


def _join(node: plan.Join, base: _Base, built: list[Operator], context: Context) -> Join:
    streams = tuple(built[ref] for ref in node.inputs)
    paths = []
    rowids: Rowids = ()
    for path in node.paths:
        rowids = through(path.mfp, streams[path.relation].place.rowids)
        stages = []
        for lookup in path.lookups:
            arrangement = _arrangement(built[lookup.arrangement])
            keep_stream, keep_batch, mfp = _compact(lookup.mfp, len(rowids))
            program = Program(mfp, context)
            stages.append(Stage(arrangement, lookup.relation, lookup.key, keep_stream, keep_batch, program))
            rowids = through(lookup.mfp, rowids + arrangement.place.rowids)
        paths.append(JoinPath(path.relation, Program(path.mfp, context), tuple(stages)))
    everything = tuple(built[ref] for ref in plan.inputs(node))
    deltas: list[list[Updates]] = [[] for _ in streams]
    return Join(base.over(everything, rowids), streams=streams, paths=tuple(paths), deltas=deltas)


def _compact(mfp: Mfp, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Mfp]:
    """The stream and arrangement columns that an mfp reads, and the mfp over just these."""
    scalars = (*mfp.predicates, *mfp.outputs)
    needed = sorted({column for scalar in scalars for column in columns(scalar)})
    place = {column: i for i, column in enumerate(needed)}

    def moved(scalar: Scalar) -> Scalar:
        return remap(scalar, place.__getitem__)

    keep_stream = np.array([c for c in needed if c < width], np.int64)
    keep_batch = np.array([c - width for c in needed if c >= width], np.int64)
    return keep_stream, keep_batch, Mfp(tuple(map(moved, mfp.predicates)), tuple(map(moved, mfp.outputs)))


def _range_join(node: plan.RangeJoin, base: _Base, built: list[Operator], context: Context) -> RangeJoin:
    left, right = _arrangement(built[node.left]), _arrangement(built[node.right])
    read = {column for scalar in (*node.mfp.predicates, *node.mfp.outputs) for column in columns(scalar)}
    if any(column >= left.width for column in read):
        raise InternalError("a range join cannot output columns of its thresholds")
    # Words order as their values do, so they are compared as integers whatever they stand for.
    comparison = Call(
        COMPARISONS[node.comparison],
        (Column(node.key, BIGINT), Column(left.width + node.key, BIGINT)),
        BOOLEAN,
    )
    pair = Mfp((comparison, *node.mfp.predicates), node.mfp.outputs)
    return RangeJoin(
        base.over((left, right), through(node.mfp, left.place.rowids + right.place.rowids)),
        left=left,
        right=right,
        key=node.key,
        comparison=node.comparison,
        pair_program=Program(pair, context),
        left_program=Program(node.mfp, context),
    )


def describe(node: plan.Node, nodes: Sequence[plan.Node], context: Context) -> str:
    """A short name for displays."""
    match node:
        case plan.Source(table=table):
            return f"Source {table}"
        case plan.Arrange(input=ref, key=key):
            return _table_key(nodes[ref], context) or f"Arrange by {key} columns"
        case _:
            return type(node).__name__


def _table_key(node: plan.Node, context: Context) -> str | None:
    """``table(columns)`` for the rows of an arrangement of a base table by some of its columns."""
    if not isinstance(node, plan.Linear) or node.mfp.predicates or not node.mfp.outputs:
        return None
    *key, rowid = node.mfp.outputs
    fetched = [scalar for scalar in key if isinstance(scalar, Fetch)]
    if not isinstance(rowid, Column) or not fetched or len(fetched) < len(key):
        return None
    table = fetched[0].table
    names = context.store(table).schema.names
    return f"{table}({', '.join(names[scalar.column] for scalar in fetched)})"
