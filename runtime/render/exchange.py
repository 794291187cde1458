"""Rendering of plans for many workers: exchanges, joins with exchanges on their paths, loops."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Scope
from kpg.runtime.errors import InternalError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.exchange import LoopTogether, Sending, Share, levels
from kpg.runtime.operators.join import JoinPath, Segment, Stage
from kpg.runtime.operators.linear import Concat
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.worker_group import Company
from kpg.runtime.plan import Ref
from kpg.runtime.render.context import Built, Context, Halves, Site, arrangement_of
from kpg.runtime.render.fingerprint import Identities, describe
from kpg.runtime.render.joins import halves_of
from kpg.runtime.trace.lookup import Meeting


class Level(Protocol):
    """The plan nodes of one scope while they are built; ``outer`` is the level around a loop's body."""

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


def exchange(node: plan.Exchange, site: Site, built: Built) -> Operator:
    """An exchange, or the share of what all workers hold."""
    company, source = site.context.sharing, built[node.input]
    if company is None:
        raise InternalError("a plan for many workers is run by one")
    interned = False
    if node.by is not None:
        interned = site.types[node.by].is_interned
    if node.held:
        table = None
        if node.fetched is not None:
            table = site.context.store(node.fetched[0])
            interned = table.schema.columns[node.fetched[1]].type.is_interned
        return Share(site.over(source), company=company, node=node, table=table, interned=interned)
    return _sending(node, site, source, company)


def _sending(node: plan.Exchange, site: Site, source: Operator, company: Company) -> Sending:
    texts = company.texts(site.types)
    interned = node.by is not None and site.types[node.by].is_interned
    place = site.over(source, apart=True)
    operator = Sending(place, company=company, node=node, interned=interned, texts=texts)
    company.meeting[place.position] = operator
    return operator


def join_apart(ref: Ref, paths: Sequence[plan.Path], level: Level) -> Operator:
    """A delta join whose rows go from worker to worker: the parts of its paths, and their sum."""
    carries = level.scope.depth > 1 and max(len(path.half_joins) for path in paths) > 1
    chosen_path = followed(paths, level)
    ends = []
    for number, halves in enumerate(halves_of(paths)):
        last: Operator | None = None
        parts = _parts(halves)
        for place, (exchange_ref, chosen) in enumerate(parts):
            source = level.built[halves.path.delta.input] if last is None else last
            if exchange_ref is not None:
                node = level.nodes[exchange_ref]
                assert isinstance(node, plan.Exchange)
                made = exchange(node, _site(level, exchange_ref), {node.input: source})
                source = _connected(level, made, source)
            stages = tuple(_stage(halves, index, level) for index in chosen)
            end = halves.path.refs[chosen[-1] + 1] if chosen else halves.path.refs[0]
            looked_up = (level.built[halves.path.half_joins[index].arrangement] for index in chosen)
            site = _site(level, end)
            segment = Segment(
                site.over(source, *looked_up),
                streams=(source,),
                paths=(JoinPath(number, CompiledMfp(halves.path.delta.mfp, level.context), stages),),
                deltas=[[]],
                first=place == 0,
                final=place == len(parts) - 1,
                followed=number == chosen_path,
                carries=carries,
            )
            last = _connected(level, segment, source)
        assert last is not None
        ends.append(last)
    total = Concat(_site(level, ref).over(*ends))
    for port, one in enumerate(ends):
        one.consumers.append((total, port))
    return total


def _connected(level: Level, operator: Operator, source: Operator) -> Operator:
    source.consumers.append((operator, 0))
    level.new.append(operator)
    return operator


def _site(level: Level, ref: Ref) -> Site:
    identities, node = level.identities, level.nodes[ref]
    description = describe(node, level.nodes, level.context)
    content, types = identities.contents[ref], identities.types[ref]
    return Site(identities.names[ref], description, level.context, level.scope, content, types)


def _parts(halves: Halves) -> list[tuple[Ref | None, list[int]]]:
    """The half-joins of a path in runs without an exchange, each with the exchange before it."""
    parts: list[tuple[Ref | None, list[int]]] = [(None, [])]
    for index, moved in enumerate(halves.path.moved):
        if moved is not None:
            parts.append((moved, []))
        parts[-1][1].append(index)
    return parts


def _stage(halves: Halves, index: int, level: Level) -> Stage:
    half, (keep_stream, keep_batch, mfp) = halves.path.half_joins[index], halves.compacts[index]
    arrangement = arrangement_of(level.built[half.arrangement])
    meeting = Meeting(half.key, keep_stream, keep_batch)
    compiled = CompiledMfp(mfp, level.context)
    return Stage(arrangement, half.relation, half.key, keep_stream, keep_batch, compiled, meeting)


def followed(paths: Sequence[plan.Path], level: Level) -> int:
    """The path along which the join is filled: of the relation of the largest table, which all know."""
    sizes = [_rows_below(level, path.delta.input) for path in paths]
    return int(np.argmax(sizes))


def _rows_below(level: Level, ref: Ref) -> int:
    node = level.nodes[ref]
    match node:
        case plan.Source(table=table):
            assert level.context.sharing is not None
            return level.context.sharing.counts[table]
        case plan.Enter(input=source):
            assert level.outer is not None
            return _rows_below(level.outer, source)
        case plan.Loop() | plan.Leave() | plan.Variable():
            return 0
        case _:
            return max((_rows_below(level, source) for source in plan.sources(level.nodes, node)), default=0)


def loop_of(
    company: Company,
    site: Site,
    entered: tuple[Operator, ...],
    body: tuple[Operator, ...],
    results: tuple[Operator, ...],
    scope: LoopScope,
) -> Loop:
    """A loop whose rounds all workers run together, if something in it goes from one to another."""
    last = levels(body, company)
    if not last:
        return Loop(site.over(*entered), body=body, results=results, within=scope)
    place = site.over(*entered, apart=True)
    loop = LoopTogether(place, body=body, results=results, within=scope, company=company, last=last)
    company.meeting[place.position] = loop
    return loop
