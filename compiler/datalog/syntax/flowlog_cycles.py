"""Recursion through negation in FlowLog's programs: it means what its rounds come to.

FlowLog computes relations that need each other together, round by round until none changes, also where one
of them negates another. Rules with such a cycle become a block of rules without an end. What a round derived
stays in programs whose facts are read once; in those that take them by commands each round is made of the one
before, and if that does not come to rest it is an error when it runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flowlog_loops import Block, Loop
from kpg.compiler.datalog.syntax.rewriting import nodes
from kpg.compiler.rules.strata import strongly_connected

COMMANDS: Final = frozenset(("IO", word) for word in ("command", "cmd"))
"""Says that facts come by commands."""


def by_rounds(statements: Sequence[ast.Statement], diagnostics: Diagnostics) -> list[ast.Statement]:
    """The statements with rules that negate what depends on them as rounds."""
    found = list(statements)
    keeps = not any(isinstance(one, ast.Directive) and COMMANDS.intersection(one.options) for one in found)
    rules = [one for one in found if isinstance(one, ast.Clause) and one.body is not None]
    if not any(isinstance(one, ast.Not) for one in nodes(tuple(rules))):
        return found
    taken = {name.text for one in found if isinstance(one, ast.Rounds) for name in one.names}
    for number, names in enumerate(_cycles(rules)):
        negation = next(_negations(rules, names), None)
        if negation is None or taken.intersection(names):
            continue
        message = f"{negation.name} is negated where it depends on it: what holds is what rounds come to"
        hint = (
            "what a round derived stays" if keeps else "of rules that contradict each other there is no end"
        )
        diagnostics.warning("stratification", message, negation.span, hint=hint)
        of_it = [one for one in rules if any(head.name.text in names for head in one.heads)]
        block = Block(tuple(of_it), (), None, (), False, of_it[0].span)
        others = [one for one in found if one not in of_it]
        readers = [one for one in others if isinstance(one, ast.Rounds) or one in rules]
        before = [one for one in others if one not in readers]
        found = [*Loop(block, f"@cycle{number}", before, diagnostics, keeps).written(), *readers]
    return found


def _cycles(rules: Sequence[ast.Clause]) -> list[frozenset[str]]:
    """The relations that need each other, of those that rules define."""
    needs: dict[str, list[str]] = {head.name.text: [] for one in rules for head in one.heads}
    for one in rules:
        read = [part.name.text for part in nodes(one.body) if isinstance(part, ast.Atom)]
        for head in one.heads:
            needs[head.name.text] += [name for name in read if name in needs]
    return [frozenset(names) for names in strongly_connected(_each_once(needs))]


def _each_once(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(dict.fromkeys(read)) for name, read in needs.items()}


def _negations(rules: Sequence[ast.Clause], names: frozenset[str]) -> Iterator[ast.Atom]:
    """Where rules for the relations negate one of them."""
    for one in rules:
        if any(head.name.text in names for head in one.heads):
            for part in nodes(one.body):
                if isinstance(part, ast.Not):
                    inside = (atom for atom in nodes(part) if isinstance(atom, ast.Atom))
                    yield from (atom for atom in inside if atom.name.text in names)
