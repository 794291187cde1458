"""FlowLog's loop blocks, and recursion through negation: relations evaluated by rounds.

A round is the result of the block's rules over the round before and the relations derived before the block.
An ``.iterative`` relation keeps its initial value for the first round, and each round replaces it; other
relations accumulate. An ``until`` condition holds once its relations have a row. The round in which it first
holds counts, unless the block has iterative relations.

FlowLog evaluates mutually recursive relations round by round until none changes, even through negation. A
program with such a cycle becomes a block without an end condition. If facts are read once, derived tuples
accumulate. If commands change the facts, each round replaces the one before, and a program that reaches no
fixed point is a run-time error.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.ast import parse_integer
from kpg.compiler.datalog.syntax.traverse import head_aggregate, nodes, transform_tree
from kpg.compiler.rules.strata import strongly_connected
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

MAX_UNROLLED_ROUNDS: Final = 200
"""Maximum number of rounds of an unrolled loop."""
MAX_TESTED_ROUND: Final = 50_000
"""Round from which on the tests of a loop are not evaluated: the loop runs to its fixed point."""
COUNTER_PREFIX: Final = "@round"
"""Prefix of the relation that counts a block's rounds."""

EndCondition = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """``fixpoint { rules }`` or ``loop ... { rules }``.

    It exists only until ``translate`` expands it. ``evaluate_last_round`` is the last round of ``while``, -1
    if there is none, or None without ``while``. ``until`` has alternatives, each with relations that
    must all have a row. With ``needs_both``, ``while`` and ``until`` must end the loop together.
    """

    clauses: tuple[ast.Clause, ...]
    iterative: tuple[ast.Name, ...]
    last_round: int | None
    until: tuple[tuple[str, ...], ...]
    needs_both: bool
    span: Span = field(compare=False, repr=False)


def evaluate_last_round(words: Sequence[Sequence[str]]) -> int | None:
    """Return the last round, from 0, up to which the tests hold: ``["@it", "<=", "9"]``, ``["and"]``, ....

    Returns -1 if there is none, and None if there is no last one.
    """
    tests = [(word[1], parse_integer(word[2])[0]) for word in words[::2]]
    highest = min(max(number for _, number in tests), MAX_TESTED_ROUND)
    for round_ in range(highest + 2):
        holds = _holds(round_, *tests[0])
        for word, test in zip(words[1::2], tests[1:], strict=True):
            other = _holds(round_, *test)
            holds = holds and other if word[0] == "and" else holds or other
        if not holds:
            return round_ - 1
    return None


def _holds(round_: int, sign: str, number: int) -> bool:
    match sign:
        case "<":
            return round_ < number
        case "<=":
            return round_ <= number
        case ">":
            return round_ > number
        case ">=":
            return round_ >= number
        case _:
            return round_ == number


def until_alternatives(words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the alternatives of ``["Done", "and", "Other", ...]``, read from left to right."""
    found: list[tuple[str, ...]] = [(words[0],)]
    for word, name in zip(words[1::2], words[2::2], strict=True):
        found = [(*way, name) for way in found] if word == "and" else [*found, (name,)]
    return tuple(found)


def expand_blocks(
    statements: Sequence[ast.Statement | Block], diagnostics: Diagnostics
) -> list[ast.Statement]:
    """Replace blocks by their rules.

    Rules that later change what a block reads are reported.
    """
    blocks = [place for place, one in enumerate(statements) if isinstance(one, Block)]
    first = blocks[0] if blocks else len(statements)
    facts = [one for one in statements[first:] if isinstance(one, ast.Clause) and one.body is None]
    flat = [one for one in statements[:first] if not isinstance(one, Block)] + facts
    for place, statement in enumerate(statements[first:], first):
        if isinstance(statement, ast.Clause) and statement.body is None:
            continue
        if not isinstance(statement, Block):
            flat.append(statement)
            continue
        _check_later_rules(statement, flat, statements[place + 1 :], diagnostics)
        if statement.last_round is None and not statement.until and not statement.iterative:
            flat += statement.clauses
        elif _is_declared(statement, flat, diagnostics):
            flat = LoopExpansion(statement, f"@{blocks.index(place)}", flat, diagnostics).statements()
    return flat


def _check_later_rules(
    block: Block,
    earlier: Sequence[ast.Statement],
    later: Sequence[ast.Statement | Block],
    diagnostics: Diagnostics,
) -> None:
    """Report rules after a block that add to relations which the block reads."""
    clauses = (*(one for one in earlier if isinstance(one, ast.Clause)), *block.clauses)
    read = {atom.name.text for one in clauses for atom in nodes(one.body) if isinstance(atom, ast.Atom)}
    read |= set(_heads(block.clauses))
    for one in later:
        for clause in one.clauses if isinstance(one, Block) else (one,):
            if not isinstance(clause, ast.Clause) or clause.body is None:
                continue
            for head in clause.heads:
                if head.name.text in read:
                    message = f"a rule for {head.name} behind a block that reads it is not supported"
                    hint = "put it before the block"
                    diagnostics.error("unsupported", message, head.span, hint=hint)


def _is_declared(block: Block, before: Sequence[ast.Statement], diagnostics: Diagnostics) -> bool:
    """Return whether the block's relations are declared before it and are not inputs."""
    declared = declarations(before)
    names = _heads(block.clauses)
    until = [name for way in block.until for name in way]
    for name in names:
        if name not in declared:
            message = f"relation {name} is not declared before the loop that defines it"
            diagnostics.error("undefined", message, block.span)
            return False
        if any(isinstance(one, ast.Directive) and _reads(one, name) for one in before):
            message = f"a loop of {name}, which is an input, is not supported"
            diagnostics.error("unsupported", message, block.span)
            return False
    for name in (*until, *(one.text for one in block.iterative)):
        if name not in names:
            message = f"no rule of the loop defines {name}"
            hint = "until names relations of the loop" if name in until else ".iterative does"
            diagnostics.error("undefined", message, block.span, hint=hint)
            return False
    return True


@dataclass(slots=True)
class LoopExpansion:
    """The expansion of a block.

    ``initial_suffix`` is the suffix of its relations' values before the block. With ``accumulates``,
    the tuples of a round persist.
    """

    block: Block
    initial_suffix: str
    before: list[ast.Statement]
    diagnostics: Diagnostics
    accumulates: bool = False
    names: dict[str, None] = field(init=False)
    declarations: dict[str, ast.Declaration] = field(init=False)

    def __post_init__(self) -> None:
        self.names = _heads(self.block.clauses)
        self.declarations = declarations(self.before)

    def statements(self) -> list[ast.Statement]:
        """Return the statements before the block, and those of the loop."""
        statements: list[ast.Statement] = []
        for statement in self.before:
            statements.append(
                _rename_relations(statement, self.names, self.initial_suffix)
                if isinstance(statement, ast.Clause | ast.Rounds)
                else statement
            )
        for name in self.names:
            statements.append(self._declaration(name, self.initial_suffix))
        aggregates = any(head_aggregate(arg) for one in self.block.clauses for arg in _arguments(one))
        if not aggregates:
            return [*statements, *self._iterate()]
        rounds = None if self.block.last_round is None else self.block.last_round + 2
        if (
            rounds is None
            or self.block.until
            or self.block.iterative
            or rounds * len(self.names) > MAX_UNROLLED_ROUNDS
        ):
            message = (
                f"a loop with aggregates that has another end than {MAX_UNROLLED_ROUNDS} rounds "
                "is not supported"
            )
            hint = "aggregate behind the loop"
            self.diagnostics.error("unsupported", message, self.block.span, hint=hint)
            return statements
        return [*statements, *self._unroll(rounds)]

    def _declaration(self, name: str, mark: str) -> ast.Declaration:
        label = ast.Name(name + mark, self.block.span)
        return replace(self.declarations[name], names=(label,), qualifiers=())

    def _terms(self, name: str) -> tuple[ast.Variable, ...]:
        count = len(self.declarations[name].attributes)
        return tuple(ast.Variable(f"c{place}", self.block.span) for place in range(count))

    def _atom(self, name: str, mark: str = "") -> ast.Atom:
        return ast.Atom(ast.Name(name + mark, self.block.span), self._terms(name), self.block.span)

    def _rule(self, head: ast.Atom, *body: ast.Body) -> ast.Clause:
        return ast.Clause((head,), ast.And(body, self.block.span), None, self.block.span)

    # Unrolled rounds

    def _unroll(self, rounds: int) -> Iterator[ast.Statement]:
        """Yield a relation per round for each relation of the block."""
        for name in self.names:
            yield self._declaration(name, f"{self.initial_suffix}.0")
        for number in range(1, rounds + 1):
            old = f"{self.initial_suffix}.{number - 1}"
            for name in self.names:
                yield self._declaration(name, f"{self.initial_suffix}.{number}")
                yield self._rule(
                    self._atom(name, f"{self.initial_suffix}.{number}"), self._atom(name, self.initial_suffix)
                )
            for clause in self.block.clauses:
                heads = tuple(_add_suffix(head, f"{self.initial_suffix}.{number}") for head in clause.heads)
                yield replace(_rename_relations(clause, self.names, old), heads=heads)
        for name in self.names:
            yield self._rule(self._atom(name), self._atom(name, f"{self.initial_suffix}.{rounds}"))

    # Lockstep rounds

    def _iterate(self) -> Iterator[ast.Statement]:
        """Yield rules that are computed in lockstep, for as many rounds as the conditions allow."""
        block, span = self.block, self.block.span
        counter = ast.Name(f"{COUNTER_PREFIX} {next(iter(self.names))}{self.initial_suffix}", span)
        number = ast.Attribute(ast.Name("it", span), ast.TypeRef(ast.Name("number", span)))
        yield ast.Declaration((counter,), (number,), (), span)
        yield self._rule(ast.Atom(counter, (ast.Integer(0, False, span),), span), ast.Truth(True, span))
        it = ast.Variable("it", span)
        if block.last_round is not None:
            following = ast.Call("+", (it, ast.Integer(1, False, span)), span)
            last = ast.Comparison("<=", it, ast.Integer(block.last_round, False, span), span)
            yield self._rule(ast.Atom(counter, (following,), span), ast.Atom(counter, (it,), span), last)
        has_begun = ast.Atom(counter, (ast.Underscore(span),), span)
        replaced = {one.text for one in block.iterative}
        for name in self.names:
            base, own = self._atom(name, self.initial_suffix), self._atom(name)
            if not replaced:
                yield self._rule(own, base)
                if self.accumulates:
                    yield self._rule(own, own)
            elif name in replaced:
                yield self._rule(own, base, ast.Not(has_begun, span))
            else:
                yield self._rule(own, base, has_begun)
                yield self._rule(own, own)
        for clause in block.clauses:
            assert clause.body is not None
            body = ast.And((has_begun, clause.body), span) if replaced else clause.body
            yield replace(clause, body=body)
        names = tuple(ast.Name(name, span) for name in self.names)
        yield ast.Rounds(counter, (counter, *names), self._end_conditions(counter.text), bool(replaced), span)

    def _end_conditions(self, counter: str) -> tuple[EndCondition, ...]:
        begun: EndCondition = ((counter, 1),) if self.block.iterative else ()  # initial tuples end no loop
        until: list[EndCondition] = [(*begun, *((name, 1) for name in way)) for way in self.block.until]
        if self.block.last_round is None:
            return tuple(until)
        rounds: EndCondition = ((counter, self.block.last_round + 2),)
        if self.block.needs_both and until:
            return tuple((*rounds, *way[len(begun) :]) for way in until)
        return (rounds, *until)


def _arguments(clause: ast.Clause) -> Iterator[ast.Expression]:
    for head in clause.heads:
        yield from head.args


def _heads(clauses: Sequence[ast.Clause]) -> dict[str, None]:
    return dict.fromkeys(head.name.text for clause in clauses for head in clause.heads)


def declarations(statements: Sequence[ast.Statement]) -> dict[str, ast.Declaration]:
    """Return the declarations among statements, by the names that they declare."""
    return {
        name.text: statement
        for statement in statements
        if isinstance(statement, ast.Declaration)
        for name in statement.names
    }


def _reads(directive: ast.Directive, name: str) -> bool:
    return directive.kind == "input" and any(one.text == name for one in directive.names)


def _add_suffix(atom: ast.Atom, mark: str) -> ast.Atom:
    return replace(atom, name=replace(atom.name, text=atom.name.text + mark))


T = TypeVar("T", bound=ast.Clause | ast.Rounds)


def _rename_relations(statement: T, names: Collection[str], mark: str) -> T:
    """Return the statement with the suffix added to the names of the relations."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Atom) and node.name.text in names:
            return _add_suffix(node, mark)
        if isinstance(node, ast.Rounds):
            new = tuple(replace(one, text=suffixed(one.text)) for one in node.names)
            ends = tuple(tuple((suffixed(name), most) for name, most in end) for end in node.end_conditions)
            return replace(node, names=new, end_conditions=ends)
        return node

    def suffixed(name: str) -> str:
        return name + mark if name in names else name

    return transform_tree(statement, change)


COMMAND_OPTIONS: Final = frozenset(("IO", word) for word in ("command", "cmd"))
"""Options of directives whose facts are given by commands."""


def expand_negative_cycles(
    statements: Sequence[ast.Statement], diagnostics: Diagnostics
) -> list[ast.Statement]:
    """Replace rules that negate a relation depending on them by a loop."""
    found = list(statements)
    keeps = not any(
        isinstance(statement, ast.Directive) and COMMAND_OPTIONS.intersection(statement.options)
        for statement in found
    )
    rules = [
        statement for statement in found if isinstance(statement, ast.Clause) and statement.body is not None
    ]
    if not any(isinstance(statement, ast.Not) for statement in nodes(tuple(rules))):
        return found
    taken = {
        name.text for statement in found if isinstance(statement, ast.Rounds) for name in statement.names
    }
    for number, names in enumerate(_find_cycles(rules)):
        negation = next(_negations(rules, names), None)
        if negation is None or taken.intersection(names):
            continue
        message = f"{negation.name} is negated in its recursion: the result is that of its last round"
        hint = "derived tuples persist" if keeps else "contradicting rules have no fixed point"
        diagnostics.warning("stratification", message, negation.span, hint=hint)
        cycle_rules = [
            statement for statement in rules if any(head.name.text in names for head in statement.heads)
        ]
        block = Block(tuple(cycle_rules), (), None, (), False, cycle_rules[0].span)
        others = [statement for statement in found if statement not in cycle_rules]
        readers = [
            statement for statement in others if isinstance(statement, ast.Rounds) or statement in rules
        ]
        before = [statement for statement in others if statement not in readers]
        found = [*LoopExpansion(block, f"@cycle{number}", before, diagnostics, keeps).statements(), *readers]
    return found


def _find_cycles(rules: Sequence[ast.Clause]) -> list[frozenset[str]]:
    """Return the sets of rule-defined relations that depend on each other."""
    needs: dict[str, list[str]] = {head.name.text: [] for one in rules for head in one.heads}
    for rule in rules:
        read = [part.name.text for part in nodes(rule.body) if isinstance(part, ast.Atom)]
        for head in rule.heads:
            needs[head.name.text] += [name for name in read if name in needs]
    return [frozenset(names) for names in strongly_connected(_without_duplicates(needs))]


def _without_duplicates(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(dict.fromkeys(read)) for name, read in needs.items()}


def _negations(rules: Sequence[ast.Clause], names: frozenset[str]) -> Iterator[ast.Atom]:
    """Yield the atoms by which rules of the relations negate one of them."""
    for rule in rules:
        if any(head.name.text in names for head in rule.heads):
            for part in nodes(rule.body):
                if isinstance(part, ast.Not):
                    inside = (atom for atom in nodes(part) if isinstance(atom, ast.Atom))
                    yield from (atom for atom in inside if atom.name.text in names)
