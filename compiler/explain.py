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
from kpg.compiler.physical.placement import PlacedPlan, Placement, TableDistribution, Tables
from kpg.compiler.physical.placement_rules import place
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import LoweredQuery, lower_query
from kpg.compiler.sql.parse.generic_plans import PARAMETER
from kpg.compiler.sql.parse.statements import Select
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError
from kpg.runtime.functions.registry import guard_of, is_expensive
from kpg.runtime.plan import AnyNode, HalfJoin, Mfp, Plan, Ref, user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar, sql_text

STAGES: Final = ("ast", "logical", "magic", "steps", "optimized", "physical")


def explain_steps(steps: tuple[Step, ...]) -> str:
    """Return the relation after each pass that changed it, as text."""
    if not steps:
        return "no pass changes the plan\n"
    return "".join(f"after {step.name}:\n{rel_text(step.rel)}" for step in steps)


def explain_plan(
    query: Plan, catalog: Catalog, placed_plan: "PlacedPlan | None" = None, *, costs: bool = True
) -> str:
    """Return a plan as text: each node with its inputs, its expressions and its state.

    ``costs`` adds the cost of a change of the inputs. A ``placed_plan`` adds where rows are among the
    workers.
    """
    lines = make_printer(query, catalog, placed_plan, costs=costs).lines()
    return "".join(f"{line}\n" for line in [*lines, f"output %{query.output}"])


def make_printer(
    query: Plan, catalog: Catalog, placed_plan: "PlacedPlan | None" = None, *, costs: bool = True
) -> "Printer":
    """Return the printer of a plan's nodes; see :func:`explain_plan`."""
    printer = Printer(query, catalog)
    printer.costs = costs
    if placed_plan is not None:
        printer.placements, printer.bodies = placed_plan.placements, placed_plan.bodies
    return printer


def cost(node: plan.AnyNode) -> str:
    """Return the cost of processing a change of the node's inputs."""
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


def arranged_table(query: Plan, ref: Ref) -> tuple[str, tuple[int, ...]] | None:
    """Return the table and the key columns of an arrangement of a whole base table; None for other nodes.

    Such arrangements are shared between queries.
    """
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
        return None  # only the number of rows is read
    *keys, rowid = below.mfp.outputs
    stored = [key.column for key in keys if isinstance(key, Fetch) and isinstance(key.rowid, Column)]
    is_whole = isinstance(rowid, Column) and len(stored) == len(keys)
    return (source.table, tuple(stored)) if is_whole else None


class Printer:
    """Printer of the nodes of one plan. Expressions name columns of base tables as the catalog does.

    In a loop's body, ``%4.1`` is node 1 of the body of node 4.
    """

    def __init__(self, query: Plan, catalog: Catalog, prefix: str = "%", outer: str = "%") -> None:
        self.query = query
        self.catalog = catalog
        self.prefix = prefix
        self.outer = outer
        self.placements: Sequence[Placement] = ()
        self.bodies: Mapping[Ref, Sequence[Placement]] = {}
        self.costs = True
        self.enclosing: Printer | None = None
        """Printer of the nodes around a loop's body."""

    def lines(self) -> list[str]:
        """Return the lines of all nodes."""
        return [line for ref in range(len(self.query.nodes)) for line in self._node_lines(ref)]

    def _path_lines(self, end: Ref) -> Iterator[str]:
        """Yield the nodes of a delta join's path, one line each."""
        path = plan.path_of(self.query.nodes, end)
        first, *rest = map(self.name, path.refs)
        yield f"    {first} Delta {self.name(path.delta.input)}: {self._mfp(path.delta.mfp)}"
        for name, half in zip(rest, path.half_joins, strict=True):
            yield f"      {name} {self._half_join(half)}"

    def _node_lines(self, ref: Ref) -> Iterator[str]:
        node = self.query.nodes[ref]
        if isinstance(node, plan.Delta | plan.HalfJoin):
            return  # shown with the join
        state = plan.state_kind(node)
        state_text = "" if state is plan.StateKind.NOTHING else f", keeps {state.value}"
        where = f", {self.placements[ref]}" if self.placements else ""
        costs = f"  -- {self.cost(ref)}{state_text}{where}" if self.costs else ""
        yield f"{self.name(ref)} {self._headline(ref)}{costs}"
        if isinstance(node, plan.Loop):
            yield from (f"  {line}" for line in self.body_printer(ref, node).lines())
            yield f"  results {', '.join(f'{self.name(ref)}.{result}' for result in node.results)}"
        if isinstance(node, plan.Linear | plan.RangeJoin):
            yield f"    {self._mfp(node.mfp)}"
        if isinstance(node, plan.DeltaJoin):
            for end in node.paths:
                yield from self._path_lines(end)

    def body_printer(self, ref: Ref, loop: plan.Loop) -> "Printer":
        """Return the printer of a loop's body."""
        body = Printer(Plan(loop.body, 0), self.catalog, f"{self.name(ref)}.", self.prefix)
        body.placements = self.bodies.get(ref, ())
        body.costs, body.enclosing = self.costs, self
        return body

    def cost(self, ref: Ref) -> str:
        """Return the cost of a change, see :func:`cost`.

        Expensive columns of the plan's output are computed only when rows are read.
        """
        node = self.query.nodes[ref]
        if self.prefix != "%" or ref != self.query.output or not isinstance(node, plan.Linear):
            return cost(node)
        scalars = (*node.mfp.predicates, *node.mfp.outputs)
        guard = guard_of(node.mfp.predicates, node.mfp.outputs) if any(map(is_expensive, scalars)) else None
        if guard is None:
            return cost(node)
        return "O(change) to tell errors, computed when rows are read" if any(guard) else "when rows are read"

    def _headline(self, ref: Ref) -> str:
        name = type(self.query.nodes[ref]).__name__
        return " ".join((name, *map(self.name, self._inputs(ref)))) + self.detail(ref)

    def detail(self, ref: Ref) -> str:
        """Return the text after a node's kind and inputs, with its leading blank or comma."""
        node = self.query.nodes[ref]
        match node:
            case plan.Source(table=relation) | plan.Import(view=relation):
                return f" {relation}"
            case user.Input(identity=identity):
                return f" {identity.partition('#')[0]}"
            case plan.Constant(rows=rows):
                return f" of {len(rows)} rows"
            case plan.Arrange(key=key):
                return f" by {key}{self._sharing_note(ref)}"
            case plan.RangeJoin(key=key, comparison=comparison):
                return f" on left.#{key} {comparison} right.#{key}"
            case plan.Expand(calls=calls, ordinality=ordinality, outer=outer):
                call_list = ", ".join(f"{call.function}({_columns(call.arguments)})" for call in calls)
                return f" {call_list}{' numbered' if ordinality else ''}{' or NULLs' if outer else ''}"
            case plan.Reduce() | plan.BasicReduce() | plan.Fold() | plan.TopK() | plan.Single():
                return f" by {_group_text(node)}"
            case plan.Ego(calls=aggregated, construction=construction, mode=mode, continuous=continuous):
                aggregate_list = ", ".join(
                    f"{call.function}({_columns(call.arguments)})" for call in aggregated
                )
                pushed_readers = "" if continuous is None else f", readers of %{continuous} pushed"
                return f": {aggregate_list}; overlay by {construction}, {mode}{pushed_readers}"
            case plan.Window(partition=partition, calls=calls):
                return f" by {partition}: {', '.join(map(_call_text, calls))}"
            case plan.Enter(input=source):
                return f" {self.outer}{source}"
            case plan.Variable(index=number):
                return f" {number}"
            case plan.Leave(result=number):
                return f" result {number}"
            case plan.Loop(limit=int(limit), error_at_limit=error):
                return f", {'error' if error else 'end'} after {limit} rounds"
            case plan.Exchange():
                return f" {exchange_text(node)}"
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
        """Return the name of a node in the text."""
        return f"{self.prefix}{ref}"

    def _inputs(self, ref: Ref) -> tuple[Ref, ...]:
        node = self.query.nodes[ref]
        if isinstance(node, plan.DeltaJoin):
            return tuple(path.delta.input for path in plan.paths_of(self.query.nodes, node))
        return plan.inputs(node)

    def _sharing_note(self, ref: Ref) -> str:
        arranged = arranged_table(self.query, ref)
        if arranged is None:
            return ""
        table, key = arranged
        return f", shared {table}({', '.join(self._column(table, column) for column in key)})"

    def _half_join(self, half: HalfJoin) -> str:
        return f"HalfJoin {self.name(half.arrangement)} by ({_columns(half.key)}): {self._mfp(half.mfp)}"

    def _mfp(self, mfp: Mfp) -> str:
        outputs = f"({', '.join(map(self.scalar, mfp.outputs))})"
        return f"{outputs} where {self.condition(mfp)}" if mfp.predicates else outputs

    def condition(self, mfp: Mfp) -> str:
        """Return the condition on the rows that pass; empty if all pass."""
        return " and ".join(map(self._conjunct_text, mfp.predicates))

    def _conjunct_text(self, predicate: Scalar) -> str:
        text = self.scalar(predicate)
        return f"({text})" if " AND " in text or " OR " in text else text

    def scalar(self, scalar: Scalar) -> str:
        """Return an expression as SQL text, with the catalog's names of table columns."""
        return sql_text(scalar, fetch_name=self._fetch_text)

    def _fetch_text(self, fetch: Fetch) -> str:
        if fetch.table == PARAMETER:
            return f"${fetch.column}"
        return f"{self.scalar(fetch.rowid)}.{self._column(fetch.table, fetch.column)}"

    def _column(self, table: str, column: int) -> str:
        entry = self.catalog.find(table)
        return f"#{column}" if entry is None else entry.schema.names[column]


def _call_text(call: plan.WindowCall) -> str:
    """Return a window call with its frame, if that is not the default frame."""
    frame = "" if call.frame == plan.Frame() else f" {plan.frame_text(call.frame)}"
    return f"{plan.shown_call(call, sql_text)}{frame}"


def _group_text(node: plan.Reduce | plan.BasicReduce | plan.Fold | plan.TopK | plan.Single) -> str:
    """Return the width of the group key and the aggregates or the limit."""
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


def exchange_text(node: plan.Exchange) -> str:
    """Return which workers receive an exchange's rows, and whether anything is sent."""
    match node.route:
        case plan.Route.OWNER:
            owner_column = f"#{node.by}" if node.fetched is None else f"#{node.by}.#{node.fetched[1]}"
            target = f"to owners of {owner_column}"
        case plan.Route.EVERYWHERE:
            target = "to all"
        case plan.Route.PIECES:
            target = "in pieces"
        case plan.Route.FIRST:
            target = "to worker 0"
        case _:
            assert_never(node.route)
    if node.held:
        return f"{target}, held by all: nothing is sent"
    return f"{target}, added up first" if node.combine is not None else target


def _argument(call: plan.Aggregate) -> str:
    return "*" if call.argument is None else f"#{call.argument}"


def _columns(columns: tuple[int, ...]) -> str:
    return ", ".join(f"#{column}" for column in columns)


Tree = dict[str, Any]
RELATIONSHIPS: Final = ("Outer", "Inner")
"""Postgres' "Parent Relationship" of the first and second input of a node; others are "Member"."""


@dataclass(frozen=True, slots=True)
class ExplainOutput:
    """Output of EXPLAIN: the nodes of a plan or, without a ``printer``, the lines of another stage.

    ``modify_table``: the operation and target table of an INSERT, UPDATE or DELETE, as in Postgres'
    ModifyTable.
    """

    printer: Printer | None = None
    output: Ref = 0
    header: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()
    stage: str = "physical"
    modify_table: tuple[tuple[str, str], ...] = ()
    common_queries: "tuple[tuple[str, ExplainOutput], ...]" = ()
    """The queries of a WITH clause that changes tables, by name."""

    def text(self) -> str:
        """Return the output as text."""
        lines = [line for name, part in self.common_queries for line in (f"CTE {name}", part.text())]
        lines += self.header
        if self.modify_table:
            (_, operation), (_, relation) = self.modify_table
            lines.append(f"{operation.upper()} {relation} of the rows of")
        if self.printer is not None:
            lines += [*self.printer.lines(), f"output {self.printer.name(self.output)}"]
        return "\n".join((*lines, *self.footer))

    def tree(self) -> Tree:
        """Return the output as a JSON object."""
        if self.printer is None:
            return {"Stage": self.stage, "Text": "\n".join((*self.header, *self.footer))}
        root = plan_tree(self.printer, self.output, "Outer" if self.modify_table else "")
        if self.modify_table:
            root = {"Node Type": "ModifyTable", **dict(self.modify_table), "Plans": [root]}
        root.setdefault("Plans", []).extend(
            {**part.tree()["Plan"], "Parent Relationship": "InitPlan", "Subplan Name": f"CTE {name}"}
            for name, part in self.common_queries
        ) if self.common_queries else None
        notes = [*self.header, *self.footer]
        return {"Plan": root, **({"Notes": notes} if notes else {})}


def plan_tree(printer: Printer, output: Ref, relationship: str = "") -> Tree:
    """Return the JSON tree of a plan, rooted at its output."""
    return _TreeBuilder().node_tree(printer, output, relationship)


class _TreeBuilder:
    """Builder of a JSON tree; a node with several readers appears in full once."""

    def __init__(self) -> None:
        self._printed_names: set[str] = set()

    def node_tree(self, printer: Printer, ref: Ref, relationship: str) -> Tree:
        """Return a node with its inputs."""
        node, name = printer.query.nodes[ref], printer.name(ref)
        tree: Tree = {"Node Type": type(node).__name__, "Node": name}
        if relationship:
            tree["Parent Relationship"] = relationship
        if name in self._printed_names:
            return tree | {"Shared": True}
        self._printed_names.add(name)
        tree |= _node_properties(printer, ref)
        below = self._input_trees(printer, ref, node)
        return tree | ({"Plans": below} if below else {})

    def _input_trees(self, printer: Printer, ref: Ref, node: plan.AnyNode) -> list[Tree]:
        if isinstance(node, plan.Loop):
            body = printer.body_printer(ref, node)
            return [self.node_tree(body, result, "Member") for result in dict.fromkeys(node.results)]
        if isinstance(node, plan.Enter):
            assert printer.enclosing is not None
            return [self.node_tree(printer.enclosing, node.input, RELATIONSHIPS[0])]
        read = node.paths if isinstance(node, plan.DeltaJoin) else plan.inputs(node)
        if isinstance(node, plan.DeltaJoin):
            return [self.node_tree(printer, end, "Member") for end in dict.fromkeys(read)]
        names = (*RELATIONSHIPS, *("Member",) * len(read))
        return [
            self.node_tree(printer, input_ref, name) for input_ref, name in zip(read, names, strict=False)
        ]


def _node_properties(printer: Printer, ref: Ref) -> Tree:
    """Return the JSON properties of a node: detail, output, filter, cost, state and placement."""
    node = printer.query.nodes[ref]
    facts: Tree = {}
    relation = _relation_name(printer, ref)
    if relation:
        facts["Relation Name"] = relation
    detail = printer.detail(ref).lstrip(" ,:")
    if detail and detail != relation and not isinstance(node, plan.Enter):
        facts["Detail"] = detail
    mfp = _node_mfp(node)
    if mfp is not None:
        facts["Output"] = [printer.scalar(scalar) for scalar in mfp.outputs]
        if mfp.predicates:
            facts["Filter"] = printer.condition(mfp)
    if printer.costs:
        facts["Change Cost"] = printer.cost(ref)
        state = plan.state_kind(node)
        if state is not plan.StateKind.NOTHING:
            facts["Keeps"] = state.value
        if printer.placements:
            facts["Place"] = str(printer.placements[ref])
    return facts


def _relation_name(printer: Printer, ref: Ref) -> str:
    """Return the name of the relation that a node reads or arranges; empty for other nodes."""
    node = printer.query.nodes[ref]
    if isinstance(node, plan.Source | plan.Import):
        return node.table if isinstance(node, plan.Source) else node.view
    found = arranged_table(printer.query, ref)
    return "" if found is None else found[0]


def _node_mfp(node: plan.AnyNode) -> Mfp | None:
    """Return the map, filter and project step of a node; None without one."""
    return node.mfp if isinstance(node, plan.Linear | plan.RangeJoin | plan.Delta | HalfJoin) else None


MAX_CANDIDATE_COLUMNS = 32
"""How many columns of a table are tried as distribution columns."""


@dataclass(frozen=True, slots=True)
class AlternativeTables:
    """Placement of tables with one exception.

    ``table`` is distributed by ``column``, or replicated if that is None.
    """

    tables: Tables
    table: str
    column: int | None

    def partition_column(self, table: str) -> int | None:
        """Return the column that distributes a table; see ``placement.Tables``."""
        return self.column if table == self.table else self.tables.partition_column(table)

    def owner_column(self, table: str) -> int | None:
        """Return the column whose owner has a row; see ``placement.Tables``."""
        now = self.tables.owner_column(table)
        return now if now is None or table != self.table or self.column is None else self.column

    def view_placement(self, name: str) -> Placement:
        """Return the placement of a view; see ``placement.Tables``."""
        return self.tables.view_placement(name)


def explain_placement(query: Plan, catalog: Catalog, tables: Tables) -> tuple[PlacedPlan, tuple[str, ...]]:
    """Return the plan with its exchanges, and notes.

    The notes say what a change of each input sends, and which placement of a table would save
    exchanges.
    """
    placed_plan = place(query, tables)
    return placed_plan, (*_change_traffic(placed_plan), *_savings(query, placed_plan, catalog, tables))


def exchanges(nodes: Sequence[AnyNode], prefix: str = "%") -> Iterator[tuple[str, plan.Exchange]]:
    """Yield the exchanges that send something, with their names in EXPLAIN; those of loop bodies included."""
    for ref, node in enumerate(nodes):
        if isinstance(node, plan.Exchange) and not node.held:
            yield f"{prefix}{ref}", node
        elif isinstance(node, plan.Loop):
            yield from exchanges(node.body, f"{prefix}{ref}.")


def _change_traffic(placed_plan: PlacedPlan) -> Iterator[str]:
    nodes = placed_plan.plan.nodes
    for start, node in enumerate(nodes):
        if not isinstance(node, plan.Source | plan.Import):
            continue
        reachable = _reachable_nodes(nodes, start)
        crossings = [
            f"at {name} {exchange_text(exchange)}"
            for name, exchange in exchanges(nodes)
            if _outermost_ref(name) in reachable
        ]
        name = node.table if isinstance(node, plan.Source) else node.view
        yield f"sent for a change of {name}: {'; '.join(crossings) or 'nothing'}"


def _outermost_ref(name: str) -> Ref:
    """Return the top-level node that contains an exchange."""
    return int(name[1:].partition(".")[0])


def _reachable_nodes(nodes: Sequence[AnyNode], start: Ref) -> set[Ref]:
    """Return the nodes that a change of a node reaches; of a delta join, only the paths that start there."""
    found = {start}
    for ref, node in enumerate(nodes):
        reads = (node.input,) if isinstance(node, plan.HalfJoin) else plan.inputs(node)
        if not found.isdisjoint(reads):
            found.add(ref)
    return found


def _savings(query: Plan, placed_plan: PlacedPlan, catalog: Catalog, tables: Tables) -> Iterator[str]:
    """Yield, for each table, the placement that saves most exchanges, if one saves any."""
    current_count = len(list(exchanges(placed_plan.plan.nodes)))
    for table in dict.fromkeys(node.table for node in query.nodes if isinstance(node, plan.Source)):
        entry = catalog.find(table)
        if entry is None or not current_count:
            continue
        names = entry.schema.names[:MAX_CANDIDATE_COLUMNS]
        candidates = [(f"distributed by ({name})", column) for column, name in enumerate(names)]
        counts = [
            len(list(exchanges(place(query, AlternativeTables(tables, table, column)).plan.nodes)))
            for column in (*range(len(names)), None)
        ]
        best = min(range(len(counts)), key=counts.__getitem__)
        if counts[best] < current_count:
            best_placement = "replicated" if best == len(candidates) else candidates[best][0]
            best_text = f"{counts[best]} exchange{'s' * (counts[best] != 1)}"
            yield f"with {table} {best_placement}: {best_text} instead of {current_count}"


def explain(
    query: Select,
    stage: str,
    catalog: Catalog,
    statistics: Statistics | None = None,
    *,
    is_view: bool = False,
    tables: TableDistribution | None = None,
    costs: bool = True,
) -> ExplainOutput:
    """Return a query at one of the ``STAGES``.

    ``is_view``: compile it as a view's query, else as a query that runs once. With ``tables`` the
    plan is that of several workers. InterfaceError for an unknown stage.
    """
    if stage not in STAGES:
        raise InterfaceError(f'there is no stage "{stage}"', hint=f"the stages are {', '.join(STAGES)}")
    if stage == "ast":
        return ExplainOutput(stage=stage, header=(repr(query.query),))
    bound = lower_query(query, catalog, is_view=is_view)
    if stage != "physical":
        return ExplainOutput(stage=stage, header=tuple(_stage_text(bound, stage, statistics).splitlines()))
    compiled = compile_query(bound, statistics)
    notes = tuple(note.line().rstrip("\n") for note in compiled.restriction.notes)
    return explain_physical_plan(compiled.plan, catalog, tables=tables, notes=notes, costs=costs)


def explain_physical_plan(
    plan: Plan,
    catalog: Catalog,
    *,
    tables: TableDistribution | None = None,
    notes: tuple[str, ...] = (),
    costs: bool = True,
) -> ExplainOutput:
    """Return a plan as EXPLAIN output, followed by the notes."""
    if tables is None:
        return ExplainOutput(make_printer(plan, catalog, costs=costs), plan.output, footer=notes)
    placed_plan, lines = explain_placement(plan, catalog, tables.tables_of(plan))
    printer = make_printer(placed_plan.plan, catalog, placed_plan, costs=costs)
    return ExplainOutput(printer, placed_plan.plan.output, footer=(*lines, *notes))


def _stage_text(bound: LoweredQuery, stage: str, statistics: Statistics | None) -> str:
    """Return a query at a stage before the physical plan."""
    if stage == "logical":
        return rel_text(bound.rel)
    compiled = compile_query(bound, statistics)
    match stage:
        case "magic":
            return compiled.restriction.text()
        case "steps":
            return explain_steps(compiled.steps)
        case _:
            return rel_text(compiled.optimized)
