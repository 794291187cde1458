"""Rendering of plans for many workers: exchanges, joins with exchanges on their paths, loops."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Scope
from kpg.runtime.errors import InternalError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.exchange import DistributedRounds, LocalShare, SendExchange, last_barrier_level
from kpg.runtime.operators.join import DeltaPath, HalfJoin, PathSegment
from kpg.runtime.operators.linear import Concat
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.worker_group import WorkerGroup
from kpg.runtime.plan import Ref
from kpg.runtime.render.context import Built, CompactPath, Context, Site, arrangement_of
from kpg.runtime.render.fingerprint import Identities, describe
from kpg.runtime.render.joins import compact_paths
from kpg.runtime.trace.lookup import KeyMatcher


class Level(Protocol):
    """Plan nodes of one scope while they are built; ``outer`` is the level around a loop's body."""

    @property
    def identities(self) -> Identities: ...
    @property
    def context(self) -> Context: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def outer(self) -> "Level | None": ...
    @property
    def built(self) -> dict[Ref, Operator]: ...
    @property
    def new(self) -> list[Operator]: ...
    @property
    def nodes(self) -> Sequence[plan.AnyNode]: ...


def build_exchange(node: plan.Exchange, site: Site, built: Built) -> Operator:
    """Build an exchange, or the local share of rows that all workers hold."""
    worker_group, source = site.context.worker_group, built[node.input]
    if worker_group is None:
        raise InternalError("a plan with exchanges runs on one worker")
    is_interned = False
    if node.by is not None:
        is_interned = site.types[node.by].is_interned
    if node.held:
        table = None
        if node.fetched is not None:
            table = site.context.store(node.fetched[0])
            is_interned = table.schema.columns[node.fetched[1]].type.is_interned
        return LocalShare(
            site.place_after(source),
            worker_group=worker_group,
            node=node,
            table=table,
            is_interned=is_interned,
        )
    return _build_sender(node, site, source, worker_group)


def _build_sender(
    node: plan.Exchange, site: Site, source: Operator, worker_group: WorkerGroup
) -> SendExchange:
    texts = worker_group.text_columns(site.types)
    is_interned = node.by is not None and site.types[node.by].is_interned
    place = site.place_after(source, at_barrier=True)
    operator = SendExchange(
        place, worker_group=worker_group, node=node, is_interned=is_interned, text_columns=texts
    )
    worker_group.senders[place.position] = operator
    return operator


def build_distributed_join(ref: Ref, paths: Sequence[plan.DeltaPath], level: Level) -> Operator:
    """Build a delta join whose rows move between workers: the segments of its paths, and their sum."""
    carries = level.scope.depth > 1 and max(len(path.half_joins) for path in paths) > 1
    chosen_path = choose_hydration_path(paths, level)
    ends = []
    for number, halves in enumerate(compact_paths(paths)):
        last: Operator | None = None
        parts = _split_at_exchanges(halves)
        for place, (exchange_ref, chosen) in enumerate(parts):
            source = level.built[halves.path.delta.input] if last is None else last
            if exchange_ref is not None:
                node = level.nodes[exchange_ref]
                assert isinstance(node, plan.Exchange)
                operator = build_exchange(node, _site(level, exchange_ref), {node.input: source})
                source = _connect(level, operator, source)
            half_joins = tuple(_half_join(halves, index, level) for index in chosen)
            end = halves.path.refs[chosen[-1] + 1] if chosen else halves.path.refs[0]
            looked_up = (level.built[halves.path.half_joins[index].arrangement] for index in chosen)
            site = _site(level, end)
            segment = PathSegment(
                site.place_after(source, *looked_up),
                streams=(source,),
                paths=(DeltaPath(number, CompiledMfp(halves.path.delta.mfp, level.context), half_joins),),
                deltas=[[]],
                is_first=place == 0,
                is_last=place == len(parts) - 1,
                hydrates=number == chosen_path,
                carries_original_time=carries,
            )
            last = _connect(level, segment, source)
        assert last is not None
        ends.append(last)
    total = Concat(_site(level, ref).place_after(*ends))
    for port, end_operator in enumerate(ends):
        end_operator.consumers.append((total, port))
    return total


def _connect(level: Level, operator: Operator, source: Operator) -> Operator:
    source.consumers.append((operator, 0))
    level.new.append(operator)
    return operator


def _site(level: Level, ref: Ref) -> Site:
    identities, node = level.identities, level.nodes[ref]
    description = describe(node, level.nodes, level.context)
    content, types = identities.contents[ref], identities.types[ref]
    return Site(identities.names[ref], description, level.context, level.scope, content, types)


def _split_at_exchanges(halves: CompactPath) -> list[tuple[Ref | None, list[int]]]:
    """Return the half-joins of a path in runs without an exchange, each with the exchange before it."""
    parts: list[tuple[Ref | None, list[int]]] = [(None, [])]
    for index, exchange_ref in enumerate(halves.path.exchanges):
        if exchange_ref is not None:
            parts.append((exchange_ref, []))
        parts[-1][1].append(index)
    return parts


def _half_join(halves: CompactPath, index: int, level: Level) -> HalfJoin:
    half, (keep_stream, keep_batch, mfp) = halves.path.half_joins[index], halves.compact_half_joins[index]
    arrangement = arrangement_of(level.built[half.arrangement])
    meeting = KeyMatcher(half.key, keep_stream, keep_batch)
    compiled = CompiledMfp(mfp, level.context)
    return HalfJoin(arrangement, half.relation, half.key, keep_stream, keep_batch, compiled, meeting)


def choose_hydration_path(paths: Sequence[plan.DeltaPath], level: Level) -> int:
    """Return the path that hydrates the join: that of the relation with the largest table, on all workers."""
    sizes = [_rows_below(level, path.delta.input) for path in paths]
    return int(np.argmax(sizes))


def _rows_below(level: Level, ref: Ref) -> int:
    node = level.nodes[ref]
    match node:
        case plan.Source(table=table):
            assert level.context.worker_group is not None
            return level.context.worker_group.table_rows[table]
        case plan.Enter(input=source):
            assert level.outer is not None
            return _rows_below(level.outer, source)
        case plan.Loop() | plan.Leave() | plan.Variable():
            return 0
        case _:
            return max((_rows_below(level, source) for source in plan.sources(level.nodes, node)), default=0)


def build_loop(
    worker_group: WorkerGroup,
    site: Site,
    entered: tuple[Operator, ...],
    body: tuple[Operator, ...],
    results: tuple[Operator, ...],
    scope: LoopScope,
) -> Loop:
    """Build a loop; all workers run its rounds together if its body has exchanges."""
    last = last_barrier_level(body, worker_group)
    if not last:
        return Loop(site.place_after(*entered), body=body, results=results, body_scope=scope)
    place = site.place_after(*entered, at_barrier=True)
    rounds = DistributedRounds(worker_group, last)
    loop = Loop(place, body=body, results=results, body_scope=scope, run_rounds=rounds)
    worker_group.loops[place.position] = loop
    return loop
