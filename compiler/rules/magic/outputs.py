"""Magic sets inside a program: what its outputs do not need of its other relations is not derived.

The outputs are computed as a whole, and so is what they read as a whole. Their rules ask for the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.rules import core
from kpg.compiler.rules.aggregates import in_recursion
from kpg.compiler.rules.magic.cycles import break_cycles
from kpg.compiler.rules.magic.prepare import computed_whole, needed
from kpg.compiler.rules.magic.rewrite import Options, define, weaken
from kpg.compiler.rules.magic.rewriting import Decisions, Rewriting, Source
from kpg.compiler.rules.magic.walk import Task, rewrite_rule
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import NotSupportedError

TRANSFORM: Final = "magic-transform"
"""The pragma that names relations of which only what outputs need is to be derived, ``*`` being all."""


def restricted(program: core.Program, outputs: Sequence[str]) -> core.Program | None:
    """The program that has the outputs as they are, and of other relations what the outputs need.

    None if the program does not ask for that, or if there is nothing to leave out.
    """
    chosen = _chosen(program)
    if not chosen:
        return None
    below = needed(program, set(outputs))
    if not chosen & below or any(program.relations[name].demanded for name in below):
        return None
    source = Source.of(program)
    decisions = computed_whole(source)
    for name in below:
        if name in outputs:
            decisions.make_whole(name, "it is an output")
        elif name not in chosen:
            decisions.make_whole(name, "the program asks for no magic")
    try:
        rewriting = _rewritten(source, decisions, outputs)
    except NotSupportedError:
        return None
    return None if not rewriting.asked else _program(program, rewriting, outputs)


def _chosen(program: core.Program) -> frozenset[str]:
    """The derived relations that the program wants restricted."""
    listed = {name.strip() for name in program.pragmas.get(TRANSFORM, "").split(",")}
    return frozenset(
        name
        for name, relation in program.relations.items()
        if relation.kind is core.Kind.DERIVED and (relation.magic or name in listed or "*" in listed)
    )


def _rewritten(source: Source, decisions: Decisions, outputs: Iterable[str]) -> Rewriting:
    options = Options(lambda _: False)
    while True:
        rewriting = Rewriting(source, decisions)
        done: set[str] = set()
        pending = list(outputs)
        while pending or rewriting.pending:
            for name in pending:
                done.add(name)
                _whole(rewriting, name)
            while rewriting.pending:
                define(rewriting, rewriting.pending.pop(0), options)
            read = {atom.relation for rule in rewriting.rules for atom, _ in core.atoms(rule.body)}
            pending = [name for name in source.members if name in read - done and source.is_derived(name)]
        if not rewriting.restart:
            weaken(rewriting)
        if not rewriting.restart:
            break_cycles(rewriting)
        if not rewriting.restart:
            _keep_apart(rewriting)
        if not rewriting.restart:
            return rewriting


def _whole(rewriting: Rewriting, name: str) -> None:
    """The rules of a relation that is computed as a whole, over what they ask for."""
    source = rewriting.source
    rewriting.relations[name] = source.relation(name)
    rewriting.origin[name] = name
    together = source.members[name] | {name}
    by_rounds = any(source.relation(one).selection is not None for one in together)
    for rule in source.rules[name]:
        if not by_rounds and not rule.plan:
            rewrite_rule(rewriting, Task(rule, name, rule.head.terms, None, rule.body))
            continue
        # What is kept depends on the rounds, so these stay as they are.
        for atom, _ in core.atoms(rule.body):
            if source.is_derived(atom.relation):
                rewriting.make_whole(atom.relation, f"it is asked for as a whole in a rule for {name}")
        rewriting.rules.setdefault(rule)


def _keep_apart(rewriting: Rewriting) -> None:
    """Where demand still makes a negation or aggregate of a whole relation recursive, make no demand."""
    for stratum in strata(rewriting.relations, tuple(rewriting.rules)):
        members = set(stratum.relations)
        if not stratum.is_recursive or not any(
            _is_broken(rewriting, rule, members, atom.relation, use)
            for rule in stratum.rules
            for atom, use in core.atoms(rule.body)
        ):
            continue
        for name in sorted({rewriting.origin[one] for one in members} - rewriting.decisions.whole):
            rewriting.make_whole(name, "demand for it would make a negation or aggregate recursive")


def _is_broken(rewriting: Rewriting, rule: core.Rule, members: set[str], atom: str, use: str) -> bool:
    if atom not in members:
        return False
    head = rewriting.relations[rule.head.relation]
    functions = {function for function in head.aggregates if function}
    inside = rewriting.source.members[rewriting.origin[head.name]]
    lawful = all(map(in_recursion, functions)) and rewriting.origin[atom] in inside
    return bool(use) or (bool(functions) and not lawful) or (head.selection is not None and not inside)


def _program(program: core.Program, rewriting: Rewriting, outputs: Iterable[str]) -> core.Program:
    """The rules that were made, and the relations that they are about."""
    rules = tuple(rewriting.rules)
    read = {atom.relation for rule in rules for atom, _ in core.atoms(rule.body)}
    relations = {name: one for name, one in program.relations.items() if name in read or name in set(outputs)}
    return replace(program, relations=relations | rewriting.relations, rules=rules)
