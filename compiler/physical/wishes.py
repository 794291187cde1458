"""By which columns the rows of a plan's nodes are looked up: where there is a choice, they are placed so."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import assert_never

from kpg.runtime import plan
from kpg.runtime.plan import AnyNode, Ref, user
from kpg.runtime.plan.nodes import Exchange
from kpg.runtime.scalar import Column


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
                | Exchange()
            ):
                pass  # what it is computed of has no such column, or is not placed
            case never:
                assert_never(never)

    def _vote_result(self, result: int, column: int) -> None:
        self._vote(self._results[result], column)
