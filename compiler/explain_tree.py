"""EXPLAIN as data: a plan's nodes as a tree, with the names that Postgres has for the parts of one.

A plan is a graph: a node that several read stands in full where it is met first, and by its name alone,
``Shared``, where it is met again. Keys and values are of JSON.
"""

from typing import Any, Final

from kpg.compiler.explain import Printer, table_key
from kpg.runtime import plan
from kpg.runtime.plan import HalfJoin, Mfp, Ref
from kpg.runtime.records import dataclass

Tree = dict[str, Any]
RELATIONSHIPS: Final = ("Outer", "Inner")
"""What Postgres calls the first and the second input of a node; any other is a member."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What EXPLAIN shows: the nodes of a plan, or, without a ``printer``, another stage as its lines.

    ``change``: what is done with the rows, as Postgres has it of a ModifyTable, for INSERT and its like.
    """

    printer: Printer | None = None
    output: Ref = 0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    stage: str = "physical"
    change: tuple[tuple[str, str], ...] = ()
    parts: "tuple[tuple[str, Shown], ...]" = ()
    """The queries of a WITH that changes tables."""

    def text(self) -> str:
        """As lines."""
        lines = [line for name, part in self.parts for line in (f"CTE {name}", part.text())]
        lines += self.before
        if self.change:
            (_, operation), (_, relation) = self.change
            lines.append(f"{operation.upper()} {relation} of the rows of")
        if self.printer is not None:
            lines += [*self.printer.lines(), f"output {self.printer.name(self.output)}"]
        return "\n".join((*lines, *self.after))

    def tree(self) -> Tree:
        """As an object of JSON."""
        if self.printer is None:
            return {"Stage": self.stage, "Text": "\n".join((*self.before, *self.after))}
        root = plan_tree(self.printer, self.output, "Outer" if self.change else "")
        if self.change:
            root = {"Node Type": "ModifyTable", **dict(self.change), "Plans": [root]}
        root.setdefault("Plans", []).extend(
            {**part.tree()["Plan"], "Parent Relationship": "InitPlan", "Subplan Name": f"CTE {name}"}
            for name, part in self.parts
        ) if self.parts else None
        notes = [*self.before, *self.after]
        return {"Plan": root, **({"Notes": notes} if notes else {})}


def plan_tree(printer: Printer, output: Ref, relationship: str = "") -> Tree:
    """The node whose rows are the plan's, with those that it reads below it."""
    return _Tree().of(printer, output, relationship)


class _Tree:
    """What has been shown in full."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def of(self, printer: Printer, ref: Ref, relationship: str) -> Tree:
        """A node and what is below it."""
        node, name = printer.query.nodes[ref], printer.name(ref)
        tree: Tree = {"Node Type": type(node).__name__, "Node": name}
        if relationship:
            tree["Parent Relationship"] = relationship
        if name in self._shown:
            return tree | {"Shared": True}
        self._shown.add(name)
        tree |= _facts(printer, ref)
        below = self._below(printer, ref, node)
        return tree | ({"Plans": below} if below else {})

    def _below(self, printer: Printer, ref: Ref, node: plan.AnyNode) -> list[Tree]:
        if isinstance(node, plan.Loop):
            body = printer.body(ref, node)
            return [self.of(body, result, "Member") for result in dict.fromkeys(node.results)]
        if isinstance(node, plan.Enter):
            assert printer.around is not None
            return [self.of(printer.around, node.input, RELATIONSHIPS[0])]
        read = node.paths if isinstance(node, plan.DeltaJoin) else plan.inputs(node)
        if isinstance(node, plan.DeltaJoin):
            return [self.of(printer, end, "Member") for end in dict.fromkeys(read)]
        names = (*RELATIONSHIPS, *("Member",) * len(read))
        return [self.of(printer, one, name) for one, name in zip(read, names, strict=False)]


def _facts(printer: Printer, ref: Ref) -> Tree:
    """What a node is, computes and costs."""
    node = printer.query.nodes[ref]
    facts: Tree = {}
    relation = _relation(printer, ref)
    if relation:
        facts["Relation Name"] = relation
    detail = printer.detail(ref).lstrip(" ,:")
    if detail and detail != relation and not isinstance(node, plan.Enter):
        facts["Detail"] = detail
    mfp = _mfp(node)
    if mfp is not None:
        facts["Output"] = [printer.scalar(one) for one in mfp.outputs]
        if mfp.predicates:
            facts["Filter"] = printer.condition(mfp)
    if printer.costs:
        facts["Change Cost"] = printer.cost(ref)
        kept = plan.kept(node)
        if kept is not plan.Kept.NOTHING:
            facts["Keeps"] = kept.value
        if printer.places:
            facts["Place"] = str(printer.places[ref])
    return facts


def _relation(printer: Printer, ref: Ref) -> str:
    """The relation that a node reads or arranges."""
    node = printer.query.nodes[ref]
    if isinstance(node, plan.Source | plan.Import):
        return node.table if isinstance(node, plan.Source) else node.view
    found = table_key(printer.query, ref)
    return "" if found is None else found[0]


def _mfp(node: plan.AnyNode) -> Mfp | None:
    """What a node makes of its rows."""
    return node.mfp if isinstance(node, plan.Linear | plan.RangeJoin | plan.Delta | HalfJoin) else None
