"""The bodies of aggregates grounded: in place if they are one conjunction, else by rules of their own."""

from collections.abc import Iterable
from typing import Protocol

from kpg.compiler.datalog.desugaring import structures, substitute
from kpg.compiler.datalog.desugaring.equate import equate
from kpg.compiler.datalog.desugaring.normal import (
    INLINED,
    Collected,
    Grounded,
    NormalAggregate,
    NormalLiteral,
    Range,
)
from kpg.compiler.datalog.syntax.flatten import written
from kpg.compiler.datalog.syntax.scopes import LOCAL
from kpg.compiler.datalog.typing.types import TypeTable
from kpg.compiler.rules.aggregates import counts_repeats
from kpg.compiler.rules.core import Atom, BodyAggregate, Expression, Variable, Wildcard, variables
from kpg.runtime.errors import Span


class Grounding(Protocol):
    """What grounds conjunctions: ``ground``."""

    table: TypeTable

    def scope(
        self, body: tuple[NormalLiteral, ...], outer: frozenset[str], needed: frozenset[str]
    ) -> tuple[Grounded, ...]: ...

    def check_bound(self, used: Iterable[Variable], bound: frozenset[str] | set[str]) -> None: ...

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None: ...


def values_of(one: NormalAggregate) -> tuple[Expression, ...]:
    """The aggregate's value, if it has one."""
    return () if one.value is None else (one.value,)


def collect(
    run: Grounding, one: NormalAggregate, groups: tuple[Variable, ...], types: dict[str, Variable]
) -> BodyAggregate | Collected:
    """The aggregate with its body in order; ``groups`` are bound outside, ``types`` are all its variables."""
    if len(one.alternatives) != 1:
        return _of_alternatives(run, one, groups, types)
    terms, made = _grounded(run, values_of(one), one.alternatives[0], groups)
    value = structures.encode(terms[0], run.table) if terms else None
    literals = tuple(part for part in made if not isinstance(part, Range | Collected))
    if len(literals) == len(made):
        return BodyAggregate(one.result, one.function, value, literals, groups, one.span)
    made = tuple(_named(part, place) for place, part in enumerate(made))
    bound = {v.name: v for part in made for v in substitute.bound_by(part)}
    columns = tuple({**{group.name: group for group in groups}, **bound}.values())
    return Collected(one.result, one.function, value, ((columns, made),), columns, groups, one.span)


def _grounded(
    run: Grounding,
    terms: tuple[Expression, ...],
    body: tuple[NormalLiteral, ...],
    groups: tuple[Variable, ...],
) -> tuple[tuple[Expression, ...], tuple[Grounded, ...]]:
    """The terms and the conjunction, equalities carried out; what is not bound is noted."""
    outer = frozenset(group.name for group in groups)
    terms, body = equate(terms, body, outer)
    used = [variable for term in terms for variable in variables(term)]
    made = run.scope(body, outer, frozenset(variable.name for variable in used))
    run.check_bound(used, outer | {v.name for part in made for v in substitute.bound_by(part)})
    return terms, made


def _of_alternatives(
    run: Grounding, one: NormalAggregate, groups: tuple[Variable, ...], types: dict[str, Variable]
) -> Collected:
    named = [
        {v.name for part in body for v in substitute.direct(part) if not _is_made_up(v)}
        for body in one.alternatives
    ]
    shared = set.intersection(*named) if named else set[str]()
    outer = {group.name for group in groups}
    if counts_repeats((one.function,)):
        _refuse_unclear(run, one, set[str]().union(*named) - shared - outer)
    inner = dict.fromkeys(v.name for value in values_of(one) for v in variables(value))
    inner |= dict.fromkeys(sorted(shared))
    columns = (*groups, *(types[name] for name in inner if name not in outer))
    parts = tuple(_grounded(run, columns, body, groups) for body in one.alternatives)
    value = None if one.value is None else structures.encode(one.value, run.table)
    return Collected(one.result, one.function, value, parts, columns, groups, one.span)


def _refuse_unclear(run: Grounding, one: NormalAggregate, partial: set[str]) -> None:
    """Variables that not all alternatives have, and underscores, would count in some of them only."""
    hint = "give the alternative a relation of its own, with the columns that count"
    for name in sorted(partial)[:1]:
        message = f"variable {written(name)} is not in all alternatives of the aggregate"
        run.error("unsupported", message, one.span, hint)
    if not partial and any(isinstance(part, Atom) and _has_wildcard(part) for part in one.literals):
        message = "an underscore in an aggregate over alternatives"
        run.error("unsupported", message, one.span, hint)


def _is_made_up(variable: Variable) -> bool:
    """Whether it depends on others: it stands for an expression, or is an inlined rule's."""
    return variable.name.startswith(LOCAL) or INLINED in variable.name


def _has_wildcard(atom: Atom) -> bool:
    return any(isinstance(term, Wildcard) for term in atom.terms)


def _named(one: Grounded, position: int) -> Grounded:
    """The literal with variables for an atom's wildcards, which count."""
    if not isinstance(one, Atom):
        return one
    return named(one, f"{LOCAL}any{position}_")


def named(atom: Atom, prefix: str) -> Atom:
    """The atom with a variable, its name the prefix and a number, for each wildcard."""
    terms = tuple(
        Variable(f"{prefix}{column}", term.type) if isinstance(term, Wildcard) else term
        for column, term in enumerate(atom.terms)
    )
    return Atom(atom.relation, terms, atom.span)
