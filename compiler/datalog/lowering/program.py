"""A relation of a program with all that it depends on: lets for its components, loops if recursive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.catalog import Catalog, get_of
from kpg.compiler.datalog import core
from kpg.compiler.datalog.lowering.atom import Context
from kpg.compiler.datalog.lowering.rule import definition, relation_types
from kpg.compiler.datalog.stratify import Stratum, strata
from kpg.runtime.errors import InternalError


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read from the catalog: inputs and external relations, and derived ones that are ``views``.

    ``names``: what the catalog calls a relation, where that is not the name it has in the program.
    """

    catalog: Catalog
    views: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, relation: str) -> Rel:
        return get_of(self.catalog.get(self.names.get(relation, relation)))


def lower_relation(program: core.Program, name: str, sources: Sources) -> Rel:
    """The rows of a relation, each once; columns as declared, a zero if there are none.

    The definition is written out even if the relation is one of the views. The relations of one recursive
    component are read off equal loops. ProgrammingError if the catalog lacks a relation.
    """
    if name not in program.relations:
        raise InternalError(f"the program has no relation {name}")
    relation = program.relations[name]
    if relation.kind is not core.Kind.DERIVED:
        return algebra.Distinct(_rows(relation, sources))
    views = _whole(program, name, sources.views)
    wanted = _needed(program, name, views)
    context = Context(program, partial(_read, program, sources, views))
    rel: Rel = algebra.LocalGet(name, relation_types(relation))
    for stratum in reversed(_strata(program)):
        if wanted & set(stratum.relations):
            rel = _bound(context, stratum, rel)
    return rel


def _whole(program: core.Program, name: str, views: frozenset[str]) -> frozenset[str]:
    """The views whose strata are all views, and not that of ``name``: a loop is written out whole."""
    kept: set[str] = set()
    for stratum in _strata(program):
        members = set(stratum.relations)
        if members <= views and name not in members:
            kept |= members
    return frozenset(kept)


def _rows(relation: core.Relation, sources: Sources) -> Rel:
    places = tuple(range(len(relation.columns))) or (0,)
    return algebra.Project(sources.get(relation.name), places)


def _strata(program: core.Program) -> tuple[Stratum, ...]:
    """The strata of derived relations."""
    found = strata(program.relations, program.rules)
    return tuple(one for one in found if program.relations[one.relations[0]].kind is core.Kind.DERIVED)


def _needed(program: core.Program, name: str, views: frozenset[str]) -> frozenset[str]:
    """The relations to define: those that ``name`` depends on, not by way of views."""
    reads: dict[str, set[str]] = {}
    for rule in program.rules:
        reads.setdefault(rule.head.relation, set()).update(atom.relation for atom, _ in core.atoms(rule.body))
    found: set[str] = set()
    pending = [name]
    while pending:
        one = pending.pop()
        if one not in found and one not in views:
            found.add(one)
            pending.extend(reads.get(one, ()))
    return frozenset(found)


def _bound(context: Context, stratum: Stratum, body: Rel) -> Rel:
    """The body with the stratum's relations bound around it."""
    own = [context.program.relations[name] for name in stratum.relations]
    values = tuple(definition(context, relation) for relation in own)
    if stratum.is_recursive:
        types = tuple(relation_types(relation) for relation in own)
        return algebra.LetRec(stratum.relations, values, types, None, body)
    return algebra.Let(own[0].name, values[0], body)


def _read(program: core.Program, sources: Sources, views: frozenset[str], name: str) -> Rel:
    relation = program.relations[name]
    if relation.kind is core.Kind.DERIVED and name not in views:
        return algebra.LocalGet(name, relation_types(relation))
    return sources.get(name)
