"""Recursive relations as loops: in the body what depends on the recursion, all else around it."""

from dataclasses import field, replace
from functools import partial

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.physical.builder import Builder
from kpg.compiler.physical.context import Planning
from kpg.runtime import plan
from kpg.runtime.plan import AnyNode, Mfp, Ref, Types
from kpg.runtime.records import dataclass


@dataclass(slots=True, eq=False)
class BodyBuilder(Builder):
    """The nodes of a loop's body. One that reads only what enters the loop is put outside, and enters."""

    around: Builder = field(kw_only=True)
    entered: dict[Ref, Ref] = field(default_factory=dict)
    """The outer node that each Enter node of the body stands for."""
    entries: dict[Ref, Ref] = field(default_factory=dict)
    """The Enter node of each outer node."""

    def enter(self, outer: Ref) -> Ref:
        """The place in the body of a node outside."""
        place = self.entries.get(outer)
        if place is None:
            place = self.entries[outer] = self.defer(plan.Enter(outer), self.around.types[outer])
            self.entered[place] = outer
        return place

    def add(self, node: AnyNode, types: Types | None = None) -> Ref:
        """As in any builder, for a node that depends on the recursion, or on the way of a join that does."""
        own = isinstance(node, plan.Variable | plan.Enter | plan.Delta | plan.HalfJoin)
        if own or not all(ref in self.entered for ref in plan.inputs(node)):
            return Builder.add(self, node, types)
        return self.enter(self.around.add(plan.moved(node, self.entered.__getitem__), types))


def plan_loop(planning: Planning, rec: algebra.LetRec, mfp: Mfp) -> Ref:
    """A stream of the mfp over the recursion's body, its relations being the fixed point."""
    builder = BodyBuilder(around=planning.builder)
    inner = replace(planning, builder=builder, around=planning, lowered={}, recursive={})
    for index, (id_, types) in enumerate(zip(rec.ids, rec.types, strict=True)):
        inner.recursive[id_] = builder.add(plan.Variable(index, types))
    results = []
    for value in rec.values:
        results.append(inner.lower(inner, value, Mfp((), all_columns(value))))
    loop = planning.builder.defer(partial(_loop, builder, rec, tuple(results)), ())
    for index, id_ in enumerate(rec.ids):
        leave = plan.Leave(loop, index)
        planning.recursive[id_] = planning.builder.add(leave, builder.types[results[index]])
    return planning.lower(planning, rec.body, mfp)


def _loop(builder: BodyBuilder, rec: algebra.LetRec, results: tuple[Ref, ...]) -> plan.Loop:
    nodes, places = builder.listed(results)
    return plan.Loop(nodes, places, rec.limit, rec.error_at_limit)


def is_invariant(planning: Planning, rel: Rel) -> bool:
    """Whether ``rel`` reads no relation of the loop that is being planned, by a let neither."""
    return not (planning.recursive.keys() & _read(planning, rel))


def _read(planning: Planning, rel: Rel) -> frozenset[str]:
    """The ids of all lets, recursive or not, that a relation reads, directly or by other lets."""
    known = planning.reads.get(rel)
    if known is None:
        found = {node.id for node in walk(rel) if isinstance(node, algebra.LocalGet)}
        for id_ in tuple(found):
            if id_ in planning.facts.bound:
                found |= _read(planning, planning.facts.bound[id_])
        known = planning.reads[rel] = frozenset(found)
    return known
