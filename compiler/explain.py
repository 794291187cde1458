"""EXPLAIN: a compiled query at any stage, as stable text or as a tree of JSON values.

The tree uses Postgres' names for the parts of a plan. A plan is a graph: a node with several readers appears
in full at the first and as ``Shared``, by name, at the others. For several workers, EXPLAIN also shows the
placement of rows, the exchanges and what they send.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from kpg.compiler.algebra.text import rel_text
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.passes import Step
from kpg.compiler.physical.cardinality import Statistics
from kpg.compiler.physical.placement import Distributed, Placed, Placement, Tables
from kpg.compiler.physical.placement_rules import place
from kpg.compiler.pipeline import compile_bound
from kpg.compiler.sql.frontend import Bound, lower_query
from kpg.compiler.sql.parse.generic_plans import PARAMETER
from kpg.compiler.sql.parse.statements import Select
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError
from kpg.runtime.functions.registry import guard_of, is_dear
from kpg.runtime.plan import AnyNode, HalfJoin, Mfp, Plan, Ref, user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar, sql_text

STAGES: Final = ("ast", "logical", "magic", "steps", "optimized", "physical")


def explain_steps(steps: tuple[Step, ...]) -> str:
    """The plan after each pass that changed it."""
    if not steps:
        return "no pass changes the plan\n"
    return "".join(f"after {step.name}:\n{rel_text(step.rel)}" for step in steps)


def explain_plan(query: Plan, catalog: Catalog, placed: "Placed | None" = None, *, costs: bool = True) -> str:
    """Every node with its inputs, what it computes, what a change of its inputs ``costs``, and what it keeps.

    Of a ``placed`` plan also where rows are among many workers.
    """
    lines = printer_of(query, catalog, placed, costs=costs).lines()
    return "".join(f"{line}\n" for line in [*lines, f"output %{query.output}"])


def printer_of(
    query: Plan, catalog: Catalog, placed: "Placed | None" = None, *, costs: bool = True
) -> "Printer":
    """What writes a plan's nodes; see :func:`explain_plan`."""
    printer = Printer(query, catalog)
    printer.costs = costs
    if placed is not None:
        printer.places, printer.bodies = placed.placements, placed.bodies
    return printer


def cost(node: plan.AnyNode) -> str:
    """What a change costs the node."""
    match node:
        case plan.HalfJoin() | plan.DeltaJoin():
            return "O(change x fan-out)"
        case plan.RangeJoin():
            return "O(change + rows between thresholds)"
        case plan.TopK(limit=None):
            return "O(group)"
        case plan.TopK():
            return "O(log group + k)"
        case plan.BasicReduce() | user.UserReduce():
            return "O(group)"
        case plan.Expand():
            return "O(change x rows made)"
        case plan.Window(calls=calls) if all(map(plan.is_local, calls)):
            return "O(log partition + rows whose answers change)"
        case plan.Window():
            return "O(partition)"
        case plan.Constant():
            return "O(1)"
        case plan.Source() | plan.Import() | plan.Linear() | plan.Concat() | plan.Negate() | plan.Arrange():
            return "O(change)"
        case plan.Delta() | plan.Reduce() | plan.Fold() | plan.Distinct() | plan.Threshold() | plan.Single():
            return "O(change)"
        case plan.Ego():
            return "O(change x what is pushed)"
        case plan.Enter() | plan.Variable() | plan.Leave() | plan.Exchange():
            return "O(change)"
        case user.Input() | user.Apply() | user.Custom() | user.Sink() | user.EnterAt():
            return "O(change)"
        case plan.Loop():
            return "O(change) in each round that it reaches"
        case _:
            assert_never(node)


def table_key(query: Plan, ref: Ref) -> tuple[str, tuple[int, ...]] | None:
    """The table and key columns if a node arranges a whole base table: such nodes are shared."""
    node = query.nodes[ref]
    if not isinstance(node, plan.Arrange):
        return None
    below = query.nodes[node.input]
    if isinstance(below, plan.Source):
        return below.table, ()
    source = query.nodes[below.input] if isinstance(below, plan.Linear) else None
    if not isinstance(source, plan.Source) or not isinstance(below, plan.Linear) or not below.mfp.outputs:
        return None
    if below.mfp.predicates:
        return None
    if not below.mfp.outputs:
        return None  # only how many rows there are is asked for
    *keys, rowid = below.mfp.outputs
    stored = [key.column for key in keys if isinstance(key, Fetch) and isinstance(key.rowid, Column)]
    whole = isinstance(rowid, Column) and len(stored) == len(keys)
    return (source.table, tuple(stored)) if whole else None


class Printer:
    """Writes the nodes of one plan; scalars name the columns of base tables as the catalog does.

    In a loop's body, ``%4.1`` is node 1 of the body of node 4.
    """

    def __init__(self, query: Plan, catalog: Catalog, prefix: str = "%", outer: str = "%") -> None:
        self.query = query
        self.catalog = catalog
        self.prefix = prefix
        self.outer = outer
        self.places: Sequence[Placement] = ()
        self.bodies: Mapping[Ref, Sequence[Placement]] = {}
        self.costs = True
        self.around: Printer | None = None
        """What writes the nodes around a loop's body."""

    def lines(self) -> list[str]:
        """All lines of all nodes."""
        return [line for ref in range(len(self.query.nodes)) for line in self._node(ref)]

    def _chain(self, end: Ref) -> Iterator[str]:
        """The nodes of a path, one line each."""
        path = plan.path_of(self.query.nodes, end)
        first, *rest = map(self.name, path.refs)
        yield f"    {first} Delta {self.name(path.delta.input)}: {self._mfp(path.delta.mfp)}"
        for name, half in zip(rest, path.half_joins, strict=True):
            yield f"      {name} {self._half_join(half)}"

    def _node(self, ref: Ref) -> Iterator[str]:
        node = self.query.nodes[ref]
        if isinstance(node, plan.Delta | plan.HalfJoin):
            return  # shown with the join
        kept = plan.kept(node)
        keeps = "" if kept is plan.Kept.NOTHING else f", keeps {kept.value}"
        where = f", {self.places[ref]}" if self.places else ""
        costs = f"  -- {self.cost(ref)}{keeps}{where}" if self.costs else ""
        yield f"{self.name(ref)} {self._headline(ref)}{costs}"
        if isinstance(node, plan.Loop):
            yield from (f"  {line}" for line in self.body(ref, node).lines())
            yield f"  results {', '.join(f'{self.name(ref)}.{result}' for result in node.results)}"
        if isinstance(node, plan.Linear | plan.RangeJoin):
            yield f"    {self._mfp(node.mfp)}"
        if isinstance(node, plan.DeltaJoin):
            for end in node.paths:
                yield from self._chain(end)

    def body(self, ref: Ref, loop: plan.Loop) -> "Printer":
        """What writes the nodes of a loop's body."""
        body = Printer(Plan(loop.body, 0), self.catalog, f"{self.name(ref)}.", self.prefix)
        body.places = self.bodies.get(ref, ())
        body.costs, body.around = self.costs, self
        return body

    def cost(self, ref: Ref) -> str:
        """As :func:`cost`; dear columns of the output are computed when it is read."""
        node = self.query.nodes[ref]
        if self.prefix != "%" or ref != self.query.output or not isinstance(node, plan.Linear):
            return cost(node)
        scalars = (*node.mfp.predicates, *node.mfp.outputs)
        guard = guard_of(node.mfp.predicates, node.mfp.outputs) if any(map(is_dear, scalars)) else None
        if guard is None:
            return cost(node)
        return "O(change) to tell errors, computed when rows are read" if any(guard) else "when rows are read"

    def _headline(self, ref: Ref) -> str:
        name = type(self.query.nodes[ref]).__name__
        return " ".join((name, *map(self.name, self._inputs(ref)))) + self.detail(ref)

    def detail(self, ref: Ref) -> str:
        """What a node is besides its kind and its inputs, from the blank or the comma on."""
        node = self.query.nodes[ref]
        match node:
            case plan.Source(table=relation) | plan.Import(view=relation):
                return f" {relation}"
            case user.Input(identity=identity):
                return f" {identity.partition('#')[0]}"
            case plan.Constant(rows=rows):
                return f" of {len(rows)} rows"
            case plan.Arrange(key=key):
                return f" by {key}{self._shared(ref)}"
            case plan.RangeJoin(key=key, comparison=comparison):
                return f" on left.#{key} {comparison} right.#{key}"
            case plan.Expand(calls=calls, ordinality=numbered, outer=outer):
                made = ", ".join(f"{call.function}({_columns(call.arguments)})" for call in calls)
                return f" {made}{' numbered' if numbered else ''}{' or NULLs' if outer else ''}"
            case plan.Reduce() | plan.BasicReduce() | plan.Fold() | plan.TopK() | plan.Single():
                return f" by {_of_groups(node)}"
            case plan.Ego(calls=aggregated, construction=built, mode=mode, continuous=some):
                shown = ", ".join(f"{call.function}({_columns(call.arguments)})" for call in aggregated)
                told = "" if some is None else f", readers of %{some} pushed"
                return f": {shown}; overlay by {built}, {mode}{told}"
            case plan.Window(partition=partition, calls=calls):
                return f" by {partition}: {', '.join(map(_call, calls))}"
            case plan.Enter(input=source):
                return f" {self.outer}{source}"
            case plan.Variable(index=number):
                return f" {number}"
            case plan.Leave(result=number):
                return f" result {number}"
            case plan.Loop(limit=int(limit), error_at_limit=error):
                return f", {'error' if error else 'end'} after {limit} rounds"
            case plan.Exchange():
                return f" {sent(node)}"
            case plan.Loop() | plan.Linear() | plan.Concat() | plan.Negate():
                return ""
            case plan.HalfJoin(key=columns):
                return f" by ({_columns(columns)})"
            case plan.Delta() | plan.DeltaJoin():
                return ""
            case plan.Distinct() | plan.Threshold():
                return ""
            case user.Apply() | user.UserReduce() | user.Custom() | user.Sink() | user.EnterAt():
                return ""
            case _:
                assert_never(node)

    def name(self, ref: Ref) -> str:
        """How a node is called."""
        return f"{self.prefix}{ref}"

    def _inputs(self, ref: Ref) -> tuple[Ref, ...]:
        node = self.query.nodes[ref]
        if isinstance(node, plan.DeltaJoin):
            return tuple(path.delta.input for path in plan.paths_of(self.query.nodes, node))
        return plan.inputs(node)

    def _shared(self, ref: Ref) -> str:
        found = table_key(self.query, ref)
        if found is None:
            return ""
        table, key = found
        return f", shared {table}({', '.join(self._column(table, column) for column in key)})"

    def _half_join(self, half: HalfJoin) -> str:
        return f"HalfJoin {self.name(half.arrangement)} by ({_columns(half.key)}): {self._mfp(half.mfp)}"

    def _mfp(self, mfp: Mfp) -> str:
        outputs = f"({', '.join(map(self.scalar, mfp.outputs))})"
        return f"{outputs} where {self.condition(mfp)}" if mfp.predicates else outputs

    def condition(self, mfp: Mfp) -> str:
        """What has to hold of the rows that are let through; empty if all are."""
        return " and ".join(map(self._test, mfp.predicates))

    def _test(self, predicate: Scalar) -> str:
        text = self.scalar(predicate)
        return f"({text})" if " AND " in text or " OR " in text else text

    def scalar(self, scalar: Scalar) -> str:
        """An expression, with the names that the catalog has for columns of tables."""
        return sql_text(scalar, fetched=self._fetched)

    def _fetched(self, fetch: Fetch) -> str:
        if fetch.table == PARAMETER:
            return f"${fetch.column}"
        return f"{self.scalar(fetch.rowid)}.{self._column(fetch.table, fetch.column)}"

    def _column(self, table: str, column: int) -> str:
        entry = self.catalog.find(table)
        return f"#{column}" if entry is None else entry.schema.names[column]


def _call(call: plan.WindowCall) -> str:
    """A call of a window with its frame, if that is not the usual one."""
    frame = "" if call.frame == plan.Frame() else f" {plan.frame_text(call.frame)}"
    return f"{plan.shown_call(call, sql_text)}{frame}"


def _of_groups(node: plan.Reduce | plan.BasicReduce | plan.Fold | plan.TopK | plan.Single) -> str:
    """The width of the group key, and what is computed of a group."""
    match node:
        case plan.Reduce(key=key, aggregates=aggregates):
            return f"{key}: {', '.join(f'{call.function}({_argument(call)})' for call in aggregates)}"
        case plan.BasicReduce(key=key, aggregates=basics) | plan.Fold(key=key, aggregates=basics):
            return f"{key}: {', '.join(f'{call.function}({_columns(call.arguments)})' for call in basics)}"
        case plan.TopK(group=group, limit=limit, offset=offset):
            count = "all rows" if limit is None else f"{limit} rows"
            return f"{group}: {count} from {offset}"
        case plan.Single(key=key):
            return f"{key}"
        case _:
            assert_never(node)


def sent(node: plan.Exchange) -> str:
    """Who gets an exchange's rows, and whether they are sent."""
    match node.route:
        case plan.Route.OWNER:
            whose = f"#{node.by}" if node.fetched is None else f"#{node.by}.#{node.fetched[1]}"
            to = f"to owners of {whose}"
        case plan.Route.EVERYWHERE:
            to = "to all"
        case plan.Route.PIECES:
            to = "in pieces"
        case plan.Route.FIRST:
            to = "to worker 0"
        case _:
            assert_never(node.route)
    if node.held:
        return f"{to}, held by all: nothing is sent"
    return f"{to}, added up first" if node.combine is not None else to


def _argument(call: plan.Aggregate) -> str:
    return "*" if call.argument is None else f"#{call.argument}"


def _columns(columns: tuple[int, ...]) -> str:
    return ", ".join(f"#{column}" for column in columns)


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


MOST_COLUMNS = 32
"""The columns of a table that are tried."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Tables of which one is distributed by another column, or, with None, replicated."""

    tables: Tables
    table: str
    column: int | None

    def home(self, table: str) -> int | None:
        """See ``placement.Tables``."""
        return self.column if table == self.table else self.tables.home(table)

    def owner(self, table: str) -> int | None:
        """See ``placement.Tables``."""
        now = self.tables.owner(table)
        return now if now is None or table != self.table or self.column is None else self.column

    def view(self, name: str) -> Placement:
        """See ``placement.Tables``."""
        return self.tables.view(name)


def explain_placed(query: Plan, catalog: Catalog, tables: Tables) -> tuple[Placed, tuple[str, ...]]:
    """The plan with its exchanges; what changes of inputs send, and what a table placed otherwise saves."""
    placed = place(query, tables)
    return placed, (*_sent_for_changes(placed), *_savings(query, placed, catalog, tables))


def exchanges(nodes: Sequence[AnyNode], prefix: str = "%") -> Iterator[tuple[str, plan.Exchange]]:
    """The exchanges that send something, those of loops' bodies too, by their names in EXPLAIN."""
    for ref, node in enumerate(nodes):
        if isinstance(node, plan.Exchange) and not node.held:
            yield f"{prefix}{ref}", node
        elif isinstance(node, plan.Loop):
            yield from exchanges(node.body, f"{prefix}{ref}.")


def _sent_for_changes(placed: Placed) -> Iterator[str]:
    nodes = placed.plan.nodes
    for start, node in enumerate(nodes):
        if not isinstance(node, plan.Source | plan.Import):
            continue
        reached = _reached(nodes, start)
        met = [f"at {name} {sent(one)}" for name, one in exchanges(nodes) if _top(name) in reached]
        name = node.table if isinstance(node, plan.Source) else node.view
        yield f"sent for a change of {name}: {'; '.join(met) or 'nothing'}"


def _top(name: str) -> Ref:
    """The node of the outermost list in which an exchange is."""
    return int(name[1:].partition(".")[0])


def _reached(nodes: Sequence[AnyNode], start: Ref) -> set[Ref]:
    """What a change of a node goes through: of joins the paths on which it sets out."""
    found = {start}
    for ref, node in enumerate(nodes):
        reads = (node.input,) if isinstance(node, plan.HalfJoin) else plan.inputs(node)
        if not found.isdisjoint(reads):
            found.add(ref)
    return found


def _savings(query: Plan, placed: Placed, catalog: Catalog, tables: Tables) -> Iterator[str]:
    """For each table how it would be placed to save most exchanges, if that saves any."""
    now = len(list(exchanges(placed.plan.nodes)))
    for table in dict.fromkeys(node.table for node in query.nodes if isinstance(node, plan.Source)):
        entry = catalog.find(table)
        if entry is None or not now:
            continue
        names = entry.schema.names[:MOST_COLUMNS]
        ways = [(f"distributed by ({name})", column) for column, name in enumerate(names)]
        counts = [
            len(list(exchanges(place(query, Otherwise(tables, table, column)).plan.nodes)))
            for column in (*range(len(names)), None)
        ]
        best = min(range(len(counts)), key=counts.__getitem__)
        if counts[best] < now:
            how = "replicated" if best == len(ways) else ways[best][0]
            yield f"with {table} {how}: {counts[best]} exchange{'s' * (counts[best] != 1)} instead of {now}"


def explain(
    query: Select,
    stage: str,
    catalog: Catalog,
    statistics: Statistics | None = None,
    *,
    kept: bool = False,
    tables: Distributed | None = None,
    costs: bool = True,
) -> Shown:
    """A query that is asked once, or a view's, at a stage, one of ``explain.STAGES``.

    With ``tables``, its plan is that of many workers.
    """
    if stage not in STAGES:
        raise InterfaceError(f'there is no stage "{stage}"', hint=f"the stages are {', '.join(STAGES)}")
    if stage == "ast":
        return Shown(stage=stage, before=(repr(query.query),))
    bound = lower_query(query, catalog, kept=kept)
    if stage != "physical":
        return Shown(stage=stage, before=tuple(_stage(bound, stage, statistics).splitlines()))
    compiled = compile_bound(bound, statistics)
    notes = tuple(note.line().rstrip("\n") for note in compiled.restricted.notes)
    return shown_plan(compiled.plan, catalog, tables=tables, notes=notes, costs=costs)


def shown_plan(
    plan: Plan,
    catalog: Catalog,
    *,
    tables: Distributed | None = None,
    notes: tuple[str, ...] = (),
    costs: bool = True,
) -> Shown:
    """A plan as EXPLAIN shows it, with what is to be noted of it."""
    if tables is None:
        return Shown(printer_of(plan, catalog, costs=costs), plan.output, after=notes)
    placed, lines = explain_placed(plan, catalog, tables.sizes(plan))
    printer = printer_of(placed.plan, catalog, placed, costs=costs)
    return Shown(printer, placed.plan.output, after=(*lines, *notes))


def _stage(bound: Bound, stage: str, statistics: Statistics | None) -> str:
    """A bound query at a stage before its plan."""
    if stage == "logical":
        return rel_text(bound.rel)
    compiled = compile_bound(bound, statistics)
    match stage:
        case "magic":
            return compiled.restricted.text()
        case "steps":
            return explain_steps(compiled.steps)
        case _:
            return rel_text(compiled.optimized)
