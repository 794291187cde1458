"""Whether negation and aggregation are stratified.

A relation may not depend on itself through a negation or an aggregate, head aggregates min and max excepted;
in FlowLog's loops, whose rounds are what they mean, it may.
"""

from collections.abc import Mapping, Sequence

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.rules.aggregates import in_recursion
from kpg.compiler.rules.core import Limit, Relation, Rule
from kpg.compiler.rules.strata import Dependency, dependencies, strongly_connected, successors

USES = {"negation": "negates", "aggregation": "aggregates over"}


def check_stratified(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Notes each way in which a relation depends on its own negation or aggregation."""
    edges = dependencies(rules)
    component_of = {
        name: position
        for position, component in enumerate(strongly_connected(successors(relations, edges)))
        for name in component
    }
    by_rounds = {
        component_of[name]
        for name, relation in relations.items()
        if isinstance(relation.selection, Limit) and relation.selection.together
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
            _report(edge, members, inner, diagnostics)
    for name in dict.fromkeys(edge.head for edge in inner if edge.head in relations):
        for function in relations[name].aggregates:
            if function is not None and not in_recursion(function):
                _refuse(name, function, relations[name], inner, diagnostics)


def _report(edge: Dependency, members: list[str], inner: list[Dependency], diagnostics: Diagnostics) -> None:
    path = _path(edge.body, edge.head, inner)
    shown = ", ".join(members)
    what = "negation" if edge.use == "negation" else "aggregation"
    message = f"unable to stratify relations {{{shown}}}: {edge.head} {USES[edge.use]} {edge.body}"
    if edge.head != edge.body:
        message += f", which depends on {edge.head}"
    notes = tuple((f"{step.head} needs {step.body} here:", step.span) for step in path)
    hint = "recursion may use min and max as head aggregates" if what == "aggregation" else None
    diagnostics.error("stratification", f"{message} (cyclic {what})", edge.span, hint=hint, notes=notes)


def _path(start: str, end: str, edges: list[Dependency]) -> list[Dependency]:
    """The shortest way from ``start`` to what it depends on, ``end``; none if they are the same."""
    came: dict[str, Dependency] = {}
    todo = [start]
    for name in todo:
        if name == end:
            break
        for edge in edges:
            if edge.head == name and edge.body not in came and edge.body != start:
                came[edge.body] = edge
                todo.append(edge.body)
    path: list[Dependency] = []
    while end in came and end != start:
        path.append(came[end])
        end = came[end].head
    return path[::-1]


def _refuse(
    name: str, function: str, relation: Relation, inner: list[Dependency], diagnostics: Diagnostics
) -> None:
    edge = next(edge for edge in inner if edge.head == name)
    path = _path(edge.body, name, inner)
    message = f"{function} in recursion: {name} depends on itself"
    hint = "only min and max can be used in recursion"
    notes = tuple((f"{step.head} needs {step.body} here:", step.span) for step in (edge, *path))
    diagnostics.error("aggregation", message, relation.span, hint=hint, notes=notes)
