"""Checks of the whole program: stratified negation and aggregation, and monotone min and max in recursion.

A relation may not depend on itself through a negation or an aggregate. Exceptions are min and max in heads,
and FlowLog's loops, which are defined by rounds.

During a recursion the values of a ``min`` column only decrease, and those of ``max`` only increase. Each
variable involved has a *trend*: down, up or unknown. Rules must preserve the trend: a value with the opposite
trend must not reach an aggregate. No test, negation or other aggregate may retract what followed from a worse
value. This is the lattice condition of Ross and Sagiv (PODS 1992).
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Constant,
    Expression,
    Limit,
    Literal,
    Negation,
    Parameter,
    Relation,
    Rule,
    Variable,
    is_monotone,
    literal_variables,
)
from kpg.compiler.rules.strata import Dependency, dependencies, strata, strongly_connected, successors
from kpg.runtime import functions
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import word_to_float

USES = {"negation": "negates", "aggregation": "aggregates over"}


def check_stratification(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Report relations that depend on themselves through negation or aggregation."""
    edges = dependencies(rules)
    component_of = {
        name: position
        for position, component in enumerate(strongly_connected(successors(relations, edges)))
        for name in component
    }
    by_rounds = {
        component_of[name]
        for name, relation in relations.items()
        if isinstance(relation.selection, Limit) and relation.selection.lockstep_relations
    }
    inner = [
        edge
        for edge in edges
        if component_of.get(edge.head) == component_of.get(edge.body)
        and component_of.get(edge.head) not in by_rounds
    ]
    reported: set[int] = set()
    for edge in inner:
        component = component_of[edge.head]
        if edge.use and component not in reported:
            reported.add(component)
            members = sorted(name for name, at in component_of.items() if at == component)
            _report_cycle(edge, members, inner, diagnostics)
    for name in dict.fromkeys(edge.head for edge in inner if edge.head in relations):
        for function in relations[name].aggregates:
            if function is not None and not is_monotone(function):
                _report_aggregate(name, function, relations[name], inner, diagnostics)


def _report_cycle(
    edge: Dependency, members: list[str], inner: list[Dependency], diagnostics: Diagnostics
) -> None:
    path = _shortest_path(edge.body, edge.head, inner)
    members_text = ", ".join(members)
    what = "negation" if edge.use == "negation" else "aggregation"
    message = f"unable to stratify relations {{{members_text}}}: {edge.head} {USES[edge.use]} {edge.body}"
    if edge.head != edge.body:
        message += f", which depends on {edge.head}"
    notes = tuple((f"{step.head} needs {step.body} here:", step.span) for step in path)
    hint = "recursion may use min and max as head aggregates" if what == "aggregation" else None
    diagnostics.error("stratification", f"{message} (cyclic {what})", edge.span, hint=hint, notes=notes)


def _shortest_path(start: str, end: str, edges: list[Dependency]) -> list[Dependency]:
    """Return the shortest dependency path from ``start`` to ``end``, empty if they are the same."""
    predecessors: dict[str, Dependency] = {}
    todo = [start]
    for name in todo:
        if name == end:
            break
        for edge in edges:
            if edge.head == name and edge.body not in predecessors and edge.body != start:
                predecessors[edge.body] = edge
                todo.append(edge.body)
    path: list[Dependency] = []
    while end in predecessors and end != start:
        path.append(predecessors[end])
        end = predecessors[end].head
    return path[::-1]


def _report_aggregate(
    name: str, function: str, relation: Relation, inner: list[Dependency], diagnostics: Diagnostics
) -> None:
    edge = next(edge for edge in inner if edge.head == name)
    path = _shortest_path(edge.body, name, inner)
    message = f"{function} in recursion: {name} depends on itself"
    hint = "only min and max can be used in recursion"
    notes = tuple((f"{step.head} needs {step.body} here:", step.span) for step in (edge, *path))
    diagnostics.error("aggregation", message, relation.span, hint=hint, notes=notes)


class Movement(enum.Enum):
    """Change of a value as the aggregates from which it is computed improve."""

    DOWN = "gets smaller"
    UP = "gets larger"
    UNKNOWN = "changes"


OPPOSITE = {Movement.DOWN: Movement.UP, Movement.UP: Movement.DOWN, Movement.UNKNOWN: Movement.UNKNOWN}
AGGREGATE_TREND = {functions.Trend.DOWN: Movement.DOWN, functions.Trend.UP: Movement.UP}
BETTER = {Movement.DOWN: "smaller", Movement.UP: "larger"}
NON_DECREASING = frozenset(
    {"add", "least", "greatest", "cast", "trunc", "floor", "ceil", "round", "$unsigned", "$single"}
    | {
        "$wrap_number",
        "$wrap_unsigned",
        *(f"$wrap_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16)),
    }
)
"""Functions that do not decrease in any argument."""
ORDER_COMPARISONS = {"lt": False, "le": False, "gt": True, "ge": True}
"""Order comparisons, and whether a larger left side satisfies more of them."""

Column = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Flow:
    """The trend of a variable, and the aggregate from which it is computed."""

    trend: Movement
    source: str
    improvement: Movement
    """Direction in which the aggregate's value improves."""


Flows = Mapping[str, _Flow]


def check_monotone(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Report uses of min and max in recursion by which an improvement retracts a result.

    If that cannot be decided, it is a warning.
    """
    for stratum in strata(relations, rules):
        members = [relations[name] for name in stratum.relations if name in relations]
        if stratum.is_recursive and any(_aggregate_trend(f) for member in members for f in member.aggregates):
            _MonotonicityCheck(members, stratum.rules, diagnostics).check()


@dataclass(slots=True)
class _MonotonicityCheck:
    members: list[Relation]
    rules: Sequence[Rule]
    diagnostics: Diagnostics
    columns: dict[Column, _Flow] = field(default_factory=dict)
    aggregates: dict[Column, str] = field(default_factory=dict)

    def check(self) -> None:
        """Find the trends of all columns, then check every rule."""
        for member in self.members:
            for place, function in enumerate(member.aggregates):
                trend = _aggregate_trend(function)
                if function is not None and trend is not None:
                    self.columns[member.name, place] = _Flow(trend, f"the {function} of {member.name}", trend)
                    self.aggregates[member.name, place] = function
        while any(tuple(self._propagate(rule) for rule in self.rules)):
            pass
        for rule in self.rules:
            self._check_rule(rule, self._flows(rule))

    def _propagate(self, rule: Rule) -> bool:
        """Propagate trends to columns of the head without an aggregate; return whether any changed."""
        flows, changed = self._flows(rule), False
        for place, term in enumerate(rule.head.terms):
            key = (rule.head.relation, place)
            flow = flows.get(term.name) if isinstance(term, Variable) else None
            if flow is None or key in self.aggregates:
                continue
            old = self.columns.get(key)
            if old is None or old.trend not in (flow.trend, Movement.UNKNOWN):
                self.columns[key] = flow if old is None else replace(old, trend=Movement.UNKNOWN)
                changed = True
        return changed

    def _flows(self, rule: Rule) -> dict[str, _Flow]:
        """Return the flows of a rule's variables from aggregates of the stratum."""
        flows: dict[str, _Flow] = {}
        for atom in rule.body:
            if isinstance(atom, Atom):
                for place, term in enumerate(atom.terms):
                    flow = self.columns.get((atom.relation, place))
                    if flow is not None and isinstance(term, Variable):
                        flows.setdefault(term.name, flow)
        size = -1
        while size < len(flows):
            size = len(flows)
            for literal in rule.body:
                if isinstance(literal, Assignment) and literal.variable.name not in flows:
                    flow = _expression_flow(literal.expression, flows)
                    if flow is not None:
                        flows[literal.variable.name] = flow
        return flows

    # Checks of rules

    def _check_rule(self, rule: Rule, flows: Flows) -> None:
        for literal in rule.body:
            self._check_literal(literal, flows)
        for name, source in self._join_variables(rule, flows):
            message = f"{name} is {source} and joined here: what followed from a worse value is taken back"
            self._warn(message, rule.head.span)
        key = any((rule.head.relation, place) in self.aggregates for place in range(len(rule.head.terms)))
        for place, term in enumerate(rule.head.terms):
            flow = flows.get(term.name) if isinstance(term, Variable) else None
            if flow is not None:
                self._check_head(rule, (rule.head.relation, place), flow, grouped=key)

    def _check_head(self, rule: Rule, column: Column, flow: _Flow, *, grouped: bool) -> None:
        function = self.aggregates.get(column)
        span = rule.head.span
        if function is None and grouped:
            self._error(f"{flow.source} is a group of another aggregate here", span)
        elif function is not None and _is_opposite(flow.trend, function):
            change = BETTER[flow.improvement]
            message = f"as {flow.source} gets {change}, what {function} is taken of {flow.trend.value}"
            self._error(message, span)
        elif function is not None and flow.trend is Movement.UNKNOWN:
            self._warn(f"as {flow.source} changes, what {function} is taken of may get worse", span)

    def _check_literal(self, literal: Literal, flows: Flows) -> None:
        match literal:
            case Comparison():
                self._check_comparison(literal, flows)
            case Negation(atom=atom):
                for flow in _flow_into(literal, flows):
                    self._error(f"{flow.source} is used in a negation here", atom.span)
            case BodyAggregate(span=span):
                for flow in _flow_into(literal, flows):
                    self._error(f"{flow.source} is used in another aggregate here", span)
            case Atom(terms=terms, relation=relation, span=span):
                for place, term in enumerate(terms):
                    known = self.columns.get((relation, place))
                    if known is not None and isinstance(term, Constant | Parameter):
                        self._warn(f"{known.source} is compared with a constant here", span)
            case Assignment():
                pass
            case _:
                assert_never(literal)

    def _check_comparison(self, comparison: Comparison, flows: Flows) -> None:
        """Check that an improvement never makes the comparison false."""
        for expression, is_left in ((comparison.left, True), (comparison.right, False)):
            flow = _expression_flow(expression, flows)
            if flow is None:
                continue
            rising = ORDER_COMPARISONS.get(comparison.function)
            if rising is None or flow.trend is Movement.UNKNOWN:
                self._warn(f"{flow.source} is tested here: it may pass and then no more", comparison.span)
            elif (flow.trend is Movement.UP) is not (rising is is_left) or comparison.negated:
                self._error(
                    f"{flow.source} is tested here, and fails as it {flow.trend.value}", comparison.span
                )

    def _join_variables(self, rule: Rule, flows: Flows) -> Iterator[tuple[str, str]]:
        """Yield the variables with a trend that more than one atom reads."""
        atoms = [one for one in rule.body if isinstance(one, Atom)]
        for name, flow in flows.items():
            if sum(name in {v.name for v in literal_variables(one)} for one in atoms) > 1:
                yield name, flow.source

    def _error(self, message: str, span: Span) -> None:
        hint = "compute the recursion first, and use its result in a relation that is not part of it"
        self.diagnostics.error("aggregation", f"not monotone in recursion: {message}", span, hint=hint)

    def _warn(self, message: str, span: Span) -> None:
        hint = "the recursion may not come to an end, or its result depend on the order of its rounds"
        self.diagnostics.warning("aggregation", f"perhaps not monotone: {message}", span, hint=hint)


def _aggregate_trend(function: str | None) -> Movement | None:
    """Return the trend of an aggregate that may occur in recursion, or None."""
    trend = functions.lookup_aggregate(function).trend if function and is_monotone(function) else None
    return None if trend is None else AGGREGATE_TREND[trend]


def _is_opposite(trend: Movement, function: str) -> bool:
    """Return whether values with the trend make the aggregate worse."""
    aggregate_trend = _aggregate_trend(function)
    return aggregate_trend is not None and trend is OPPOSITE[aggregate_trend]


def _flow_into(literal: Literal, flows: Flows) -> list[_Flow]:
    """Return the first flow into a literal."""
    names = [v.name for v in literal_variables(literal)]
    return [flows[name] for name in names if name in flows][:1]


def _expression_flow(expression: Expression, flows: Flows) -> _Flow | None:
    """Return the flow of an expression, or None if it is not computed from an aggregate."""
    match expression:
        case Variable(name=name):
            return flows.get(name)
        case Call(function=function, args=args):
            found = [_expression_flow(arg, flows) for arg in args]
            trends = [None if flow is None else flow.trend for flow in found]
            first = next((flow for flow in found if flow is not None), None)
            return first and replace(first, trend=_call_trend(function, args, trends))
        case Constant() | Parameter():
            return None
        case _:
            assert_never(expression)


def _call_trend(function: str, args: Sequence[Expression], trends: Sequence[Movement | None]) -> Movement:
    """Return the trend of a call.

    A non-constant factor is assumed to be positive.
    """
    if function == "sub":
        trends = [trends[0], None if trends[1] is None else OPPOSITE[trends[1]]]
    elif function == "neg":
        trends = [trend and OPPOSITE[trend] for trend in trends]
    elif (function in ("mul", "div") and trends[-1] is None) or (function == "mul" and trends[0] is None):
        factor = args[1] if trends[1] is None else args[0]
        if _is_negative(factor):
            trends = [trend and OPPOSITE[trend] for trend in trends]
    elif function not in NON_DECREASING:
        return Movement.UNKNOWN
    different = {trend for trend in trends if trend is not None}
    return different.pop() if len(different) == 1 else Movement.UNKNOWN


def _is_negative(expression: Expression) -> bool:
    match expression:
        case Constant(value=int() as word, type=type_):
            return (word_to_float(word) if type_.is_float else word) < 0
        case Call(function="neg", args=(Constant() as inner,)):
            return not _is_negative(inner)
        case Constant() | Variable() | Parameter() | Call():
            return False
        case _:
            assert_never(expression)
