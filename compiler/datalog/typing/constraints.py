"""What is being found out about the kinds of a rule's expressions: nodes, conditions and what waits for
more.
"""

from dataclasses import field
from typing import assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import written
from kpg.compiler.datalog.typing.functors import NUMERIC, Functor
from kpg.compiler.datalog.typing.kinds import Kinds, Reason
from kpg.compiler.datalog.typing.types import FLOAT, NUMBER, SYMBOL, UNSIGNED, TypeKind, TypeTable
from kpg.compiler.rules.core import Domain
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

Overload = tuple[tuple[Type, ...], Type]
"""The types to cast arguments to, and the type of the result."""


@dataclass(slots=True)
class Same:
    """Arguments and result of one kind, unless SQL's types take part."""

    call: ast.Call
    functor: Functor


@dataclass(slots=True)
class Registered:
    """A function of the runtime, called by ``origin``, whose value is at ``node``."""

    function: str
    args: tuple[ast.Expression, ...]
    node: int
    origin: ast.Call | ast.Atom


@dataclass(slots=True)
class Compared:
    """Two sides of one kind, unless SQL's types take part."""

    comparison: ast.Comparison


@dataclass(slots=True)
class Structured:
    """A record or nil, whose fields are known when its type is."""

    expression: ast.Record | ast.Nil


@dataclass(slots=True)
class Stored:
    """A head's argument for a column of one of SQL's types: other numbers are cast to a DECIMAL."""

    expression: ast.Expression
    reason: Reason


@dataclass(slots=True)
class Casted:
    """A value that is taken for one of another kind."""

    cast: ast.Cast
    reason: Reason


Pending = Same | Registered | Compared | Structured | Stored | Casted


LONGEST = 40
"""Of what an error quotes of an expression: it stands in the middle of a sentence."""


def describe(expression: ast.Expression) -> str:
    """What an error calls an expression."""
    match expression:
        case ast.Variable(name=name):
            return f"variable {written(name)}"
        case ast.Underscore():
            return "_"
        case (
            ast.Integer()
            | ast.Float()
            | ast.Boolean()
            | ast.String()
            | ast.Nil()
            | ast.Record()
            | ast.Dollar()
        ):
            return _shortened(expression.span)
        case ast.Call() | ast.Cast() | ast.Aggregate():
            return _shortened(expression.span)
        case _:
            assert_never(expression)


def _shortened(span: Span) -> str:
    text = " ".join(span.source[span.start : span.end].split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@dataclass(slots=True)
class Typing:
    """The kinds of a rule's expressions; ``failed`` if they do not fit together.

    ``nodes`` and ``overloads`` are by the identity of the syntax node.
    """

    table: TypeTable
    diagnostics: Diagnostics
    kinds: Kinds = field(default_factory=Kinds)
    nodes: dict[int, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    overloads: dict[int, Overload] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    checks: list[tuple[ast.Expression, frozenset[Domain], str]] = field(default_factory=list)
    blamed: set[str] = field(default_factory=set)
    failed: bool = False

    def kind(self, expression: ast.Expression) -> TypeKind:
        """The kind of an expression; number where nothing says anything."""
        return self.known(expression) or NUMBER

    def known(self, expression: ast.Expression) -> TypeKind | None:
        """The kind of an expression, if it is known."""
        return self.kinds.kind(self.nodes[id(expression)])

    def learn(self, expression: ast.Expression, reason: Reason) -> None:
        """The expression is of a kind; noted if it is of another."""
        self.report(expression, reason, self.kinds.learn(self.nodes[id(expression)], reason))

    def unify(self, left: ast.Expression, right: ast.Expression, span: Span) -> None:
        """The two are of one kind; noted if they are not."""
        clash = self.kinds.unify(self.nodes[id(left)], self.nodes[id(right)])
        if clash is None:
            return
        self.failed = True
        names = {describe(left), describe(right)}
        if names & self.blamed:
            return
        self.blamed |= names
        ours, theirs = clash[0].kind, clash[1].kind
        message = f"type mismatch: {describe(left)} is {ours} and {describe(right)} is {theirs}"
        self.error("type", message, span, conversion(ours, theirs))

    def report(self, expression: ast.Expression, new: Reason, old: Reason | None) -> None:
        """Notes that an expression is of two kinds, if there is an old one, once for each expression."""
        if old is None:
            return
        self.failed = True
        what = describe(expression)
        if what in self.blamed:
            return
        self.blamed.add(what)
        message = f"type mismatch: {what} is {old.kind} ({old.text}) and {new.kind} ({new.text})"
        if old.text in (new.text, ""):
            message = f"type mismatch: {what} is {old.kind}, not {new.kind} ({new.text})"
        self.error("type", message, new.span or expression.span, conversion(old.kind, new.kind))

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Notes an error."""
        self.failed = True
        self.diagnostics.error(code, message, span, hint=hint)

    def finish(self) -> None:
        """Checks the conditions on kinds, all known by now; what is not is taken for a number."""
        for expression, domains, what in self.checks:
            kind = self.known(expression)
            name = describe(expression)
            if kind is None:
                self.learn(expression, Reason(NUMBER, "", expression.span))
            elif kind.domain not in domains and name not in self.blamed:
                self.blamed.add(name)
                message = f"type mismatch: {name} is {kind}, but {what} is {_alternatives(domains)}"
                if isinstance(expression, ast.Integer):
                    message = f"type mismatch: {name} is a number, not {kind}"
                self.error("type", message, expression.span)


def conversion(source: TypeKind, target: TypeKind) -> str | None:
    """A hint how to convert."""
    if target in (NUMBER, UNSIGNED, FLOAT) and source.domain in (*NUMERIC, Domain.SYMBOL):
        return f"convert it: to_{target}(...)"
    if target == SYMBOL and source.domain in NUMERIC:
        return "convert it: to_string(...)"
    return None


def _alternatives(domains: frozenset[Domain]) -> str:
    names = [domain.value for domain in Domain if domain in domains and domain is not Domain.SQL]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
