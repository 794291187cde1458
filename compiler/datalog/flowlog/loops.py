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
from kpg.compiler.datalog.syntax.ast import integer
from kpg.compiler.datalog.syntax.traverse import head_aggregate, nodes, rewritten
from kpg.compiler.rules.strata import strongly_connected
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

MOST_ROUNDS: Final = 200
"""Of a loop that is written out round by round."""
ENDLESS: Final = 50_000
"""Rounds that a loop is taken to go on for as long as anything changes."""
IT: Final = "@round"
"""Begins the name of the relation that counts a block's rounds: it stands for nothing in the text."""

End = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """``fixpoint { rules }`` or ``loop ... { rules }``. It is gone once a text is parsed.

    ``most``: the last round of ``while``, -1 if it has none; None without ``while``. ``until``: ways to end,
    each the relations that all have a row then; ``both``: ``while`` and ``until`` have to end it together.
    """

    clauses: tuple[ast.Clause, ...]
    iterative: tuple[ast.Name, ...]
    most: int | None
    until: tuple[tuple[str, ...], ...]
    both: bool
    span: Span = field(compare=False, repr=False)


def last_round(words: Sequence[Sequence[str]]) -> int | None:
    """The last of the rounds, counted from 0, that all tests up to it let go on: ``["@it", "<=", "9"]``,
    ``["and"]``, ... -1 if there is none, None if there is no last.
    """
    tests = [(word[1], integer(word[2])[0]) for word in words[::2]]
    highest = min(max(number for _, number in tests), ENDLESS)
    for round_ in range(highest + 2):
        goes = _holds(round_, *tests[0])
        for word, test in zip(words[1::2], tests[1:], strict=True):
            other = _holds(round_, *test)
            goes = goes and other if word[0] == "and" else goes or other
        if not goes:
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


def ways(words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The ways in which ``["Done", "and", "Other", ...]`` holds, read from left to right."""
    found: list[tuple[str, ...]] = [(words[0],)]
    for word, name in zip(words[1::2], words[2::2], strict=True):
        found = [(*way, name) for way in found] if word == "and" else [*found, (name,)]
    return tuple(found)


def without_blocks(
    statements: Sequence[ast.Statement | Block], diagnostics: Diagnostics
) -> list[ast.Statement]:
    """The statements with blocks' rules in place of the blocks, if nothing later changes what they read."""
    blocks = [place for place, one in enumerate(statements) if isinstance(one, Block)]
    first = blocks[0] if blocks else len(statements)
    facts = [one for one in statements[first:] if isinstance(one, ast.Clause) and one.body is None]
    flat = [one for one in statements[:first] if not isinstance(one, Block)] + facts
    for place, one in enumerate(statements[first:], first):
        if isinstance(one, ast.Clause) and one.body is None:
            continue
        if not isinstance(one, Block):
            flat.append(one)
            continue
        _check_later(one, flat, statements[place + 1 :], diagnostics)
        if one.most is None and not one.until and not one.iterative:
            flat += one.clauses
        elif _is_declared(one, flat, diagnostics):
            flat = Loop(one, f"@{blocks.index(place)}", flat, diagnostics).written()
    return flat


def _check_later(
    block: Block,
    before: Sequence[ast.Statement],
    after: Sequence[ast.Statement | Block],
    diagnostics: Diagnostics,
) -> None:
    """A block sees what was derived before it: rules after it may not add to that."""
    clauses = (*(one for one in before if isinstance(one, ast.Clause)), *block.clauses)
    read = {atom.name.text for one in clauses for atom in nodes(one.body) if isinstance(atom, ast.Atom)}
    read |= set(_heads(block.clauses))
    for one in after:
        for clause in one.clauses if isinstance(one, Block) else (one,):
            if not isinstance(clause, ast.Clause) or clause.body is None:
                continue
            for head in clause.heads:
                if head.name.text in read:
                    message = f"a rule for {head.name} behind a block that reads it is not supported"
                    hint = "put it before the block"
                    diagnostics.error("unsupported", message, head.span, hint=hint)


def _is_declared(block: Block, before: Sequence[ast.Statement], diagnostics: Diagnostics) -> bool:
    """Whether the block is of relations that are declared before it, and no inputs."""
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
class Loop:
    """A block of relations that are declared ``before`` it; ``was`` ends the names of what they were then.

    ``keeps``: what was derived in a round stays.
    """

    block: Block
    was: str
    before: list[ast.Statement]
    diagnostics: Diagnostics
    keeps: bool = False
    names: dict[str, None] = field(init=False)
    declared: dict[str, ast.Declaration] = field(init=False)

    def __post_init__(self) -> None:
        self.names = _heads(self.block.clauses)
        self.declared = declarations(self.before)

    def written(self) -> list[ast.Statement]:
        """The statements before it, and those of the loop."""
        made: list[ast.Statement] = []
        for one in self.before:
            made.append(
                _renamed(one, self.names, self.was) if isinstance(one, ast.Clause | ast.Rounds) else one
            )
        for name in self.names:
            made.append(self._declared(name, self.was))
        counting = any(head_aggregate(arg) for one in self.block.clauses for arg in _arguments(one))
        if not counting:
            return [*made, *self._together()]
        rounds = None if self.block.most is None else self.block.most + 2
        if (
            rounds is None
            or self.block.until
            or self.block.iterative
            or rounds * len(self.names) > MOST_ROUNDS
        ):
            message = (
                f"a loop with aggregates that has another end than {MOST_ROUNDS} rounds is not supported"
            )
            hint = "aggregate behind the loop"
            self.diagnostics.error("unsupported", message, self.block.span, hint=hint)
            return made
        return [*made, *self._one_by_one(rounds)]

    def _declared(self, name: str, mark: str) -> ast.Declaration:
        label = ast.Name(name + mark, self.block.span)
        return replace(self.declared[name], names=(label,), qualifiers=())

    def _terms(self, name: str) -> tuple[ast.Variable, ...]:
        count = len(self.declared[name].attributes)
        return tuple(ast.Variable(f"c{place}", self.block.span) for place in range(count))

    def _atom(self, name: str, mark: str = "") -> ast.Atom:
        return ast.Atom(ast.Name(name + mark, self.block.span), self._terms(name), self.block.span)

    def _rule(self, head: ast.Atom, *body: ast.Body) -> ast.Clause:
        return ast.Clause((head,), ast.And(body, self.block.span), None, self.block.span)

    # Rounds written out

    def _one_by_one(self, rounds: int) -> Iterator[ast.Statement]:
        """A relation for each round of each."""
        for name in self.names:
            yield self._declared(name, f"{self.was}.0")
        for number in range(1, rounds + 1):
            old = f"{self.was}.{number - 1}"
            for name in self.names:
                yield self._declared(name, f"{self.was}.{number}")
                yield self._rule(self._atom(name, f"{self.was}.{number}"), self._atom(name, self.was))
            for clause in self.block.clauses:
                heads = tuple(_marked(head, f"{self.was}.{number}") for head in clause.heads)
                yield replace(_renamed(clause, self.names, old), heads=heads)
        for name in self.names:
            yield self._rule(self._atom(name), self._atom(name, f"{self.was}.{rounds}"))

    # Rounds computed

    def _together(self) -> Iterator[ast.Statement]:
        """Rules that are computed by rounds, as many as the conditions let."""
        block, span = self.block, self.block.span
        counter = ast.Name(f"{IT} {next(iter(self.names))}{self.was}", span)
        number = ast.Attribute(ast.Name("it", span), ast.TypeRef(ast.Name("number", span)))
        yield ast.Declaration((counter,), (number,), (), span)
        yield self._rule(ast.Atom(counter, (ast.Integer(0, False, span),), span), ast.Truth(True, span))
        it = ast.Variable("it", span)
        if block.most is not None:
            following = ast.Call("+", (it, ast.Integer(1, False, span)), span)
            last = ast.Comparison("<=", it, ast.Integer(block.most, False, span), span)
            yield self._rule(ast.Atom(counter, (following,), span), ast.Atom(counter, (it,), span), last)
        begun = ast.Atom(counter, (ast.Underscore(span),), span)
        replaced = {one.text for one in block.iterative}
        for name in self.names:
            base, own = self._atom(name, self.was), self._atom(name)
            if not replaced:
                yield self._rule(own, base)
                if self.keeps:
                    yield self._rule(own, own)
            elif name in replaced:
                yield self._rule(own, base, ast.Not(begun, span))
            else:
                yield self._rule(own, base, begun)
                yield self._rule(own, own)
        for clause in block.clauses:
            assert clause.body is not None
            body = ast.And((begun, clause.body), span) if replaced else clause.body
            yield replace(clause, body=body)
        names = tuple(ast.Name(name, span) for name in self.names)
        yield ast.Rounds(counter, (counter, *names), self._ends(counter.text), bool(replaced), span)

    def _ends(self, counter: str) -> tuple[End, ...]:
        begun: End = ((counter, 1),) if self.block.iterative else ()  # what they begin with ends nothing
        until: list[End] = [(*begun, *((name, 1) for name in way)) for way in self.block.until]
        if self.block.most is None:
            return tuple(until)
        rounds: End = ((counter, self.block.most + 2),)
        if self.block.both and until:
            return tuple((*rounds, *way[len(begun) :]) for way in until)
        return (rounds, *until)


def _arguments(clause: ast.Clause) -> Iterator[ast.Expression]:
    for head in clause.heads:
        yield from head.args


def _heads(clauses: Sequence[ast.Clause]) -> dict[str, None]:
    return dict.fromkeys(head.name.text for clause in clauses for head in clause.heads)


def declarations(statements: Sequence[ast.Statement]) -> dict[str, ast.Declaration]:
    """The declarations among statements, by the names that they declare."""
    return {name.text: one for one in statements if isinstance(one, ast.Declaration) for name in one.names}


def _reads(directive: ast.Directive, name: str) -> bool:
    return directive.kind == "input" and any(one.text == name for one in directive.names)


def _marked(atom: ast.Atom, mark: str) -> ast.Atom:
    return replace(atom, name=replace(atom.name, text=atom.name.text + mark))


T = TypeVar("T", bound=ast.Clause | ast.Rounds)


def _renamed(statement: T, names: Collection[str], mark: str) -> T:
    """The statement with the relations named for the round."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Atom) and node.name.text in names:
            return _marked(node, mark)
        if isinstance(node, ast.Rounds):
            new = tuple(replace(one, text=named(one.text)) for one in node.names)
            ends = tuple(tuple((named(name), most) for name, most in end) for end in node.ends)
            return replace(node, names=new, ends=ends)
        return node

    def named(name: str) -> str:
        return name + mark if name in names else name

    return rewritten(statement, change)


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
