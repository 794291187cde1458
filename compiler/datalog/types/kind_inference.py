"""Kind inference: the kind of every expression of a flat rule by unification, and the overload of each call.

:class:`Kinds` unifies the kinds of expressions. Overloads, comparisons and records wait until enough kinds
are known; :func:`solve` then settles them.
"""

from collections.abc import Callable
from dataclasses import field
from typing import assert_never

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, given, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import FlatRule, written
from kpg.compiler.datalog.syntax.traverse import FlatLiteral, atom_of, head_aggregate, literals
from kpg.compiler.datalog.types.declarations import (
    CONDITION,
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    Functor,
    RelationInfo,
    Scheme,
    TypeKind,
    TypeTable,
    kind_of_stored,
)
from kpg.compiler.datalog.types.functors import (
    CONSTRAINTS,
    EXTREMES,
    FUNCTORS,
    NUMERIC,
    SQL_NAMES,
    WHOLE,
    Result,
    functor_named,
    operand_domains,
    result_of,
    takes_value,
)
from kpg.compiler.rules.core import Domain
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.functions import functions, resolve
from kpg.runtime.records import dataclass
from kpg.runtime.types import UNKNOWN, Type


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an expression is of a kind."""

    kind: TypeKind
    text: str
    span: Span | None


@dataclass(slots=True)
class Kinds:
    """Nodes in classes; each class has at most one kind, with the reason for it, and may be open to some
    domains only.
    """

    parents: list[int] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)

    def node(self) -> int:
        """A new node, alone in its class."""
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def root(self, node: int) -> int:
        """The representative of the node's class."""
        while self.parents[node] != node:
            self.parents[node] = self.parents[self.parents[node]]
            node = self.parents[node]
        return node

    def kind(self, node: int) -> TypeKind | None:
        """The kind of the node's class, if it is known."""
        reason = self.reasons.get(self.root(node))
        return None if reason is None else reason.kind

    def learn(self, node: int, reason: Reason) -> Reason | None:
        """The class is of this kind; if it is known to be of another, the reason for that."""
        root = self.root(node)
        old = self.reasons.setdefault(root, reason)
        return None if old.kind == reason.kind else old

    def unify(self, left: int, right: int) -> tuple[Reason, Reason] | None:
        """The two classes are one; if their kinds differ they are left as they are, and the reasons given."""
        left, right = self.root(left), self.root(right)
        if left == right:
            return None
        ours, theirs = self.reasons.get(left), self.reasons.get(right)
        if ours is not None and theirs is not None and ours.kind != theirs.kind:
            return ours, theirs
        self.parents[right] = left
        if ours is None and theirs is not None:
            self.reasons[left] = theirs
        return None


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


Fields = Callable[[str, tuple[tuple[str, str], ...], tuple[ast.Expression, ...], Span], None]
"""Says that arguments are the fields of something."""
WITH_SQL = frozenset((*"+-*/%", "neg", *EXTREMES))
TEXTS = (Domain.SYMBOL, Domain.RECORD, Domain.ADT)
"""Kinds whose values have numbers in the database."""
LITERALS = (ast.Integer, ast.Float, ast.Boolean, ast.String)


def solve(typing: Typing, fields: Fields) -> None:
    """Settles everything pending; where nothing gets any further, what is most known is settled as it is."""
    run = _Solver(typing, fields)
    while typing.pending:
        items, typing.pending = typing.pending, []
        waiting = [item for item in items if not run.settle(item, force=False)]
        if len(waiting) == len(items):
            first = min(waiting, key=run.unknown)
            waiting.remove(first)
            run.settle(first, force=True)
        typing.pending = [*waiting, *typing.pending]


@dataclass(slots=True)
class _Solver:
    typing: Typing
    fields: Fields

    def unknown(self, item: Pending) -> int:
        """Sorts what something is known of first."""
        match item:
            case Same(call=ast.Call(args=parts)) | Registered(args=parts):
                pass
            case Compared(comparison=comparison):
                parts = (comparison.left, comparison.right)
            case Casted(cast=one):
                parts = (one.value,)
            case Structured() | Stored():
                return 2
            case _:
                assert_never(item)
        return 0 if any(self.typing.known(part) is not None for part in parts) else 1

    def settle(self, item: Pending, *, force: bool) -> bool:
        """Whether the item is settled, if need be by force."""
        match item:
            case Same():
                return self._same(item, force)
            case Registered():
                return self._registered(item, force)
            case Compared(comparison=comparison):
                return self._comparison(comparison, force)
            case Structured(expression=expression):
                return self._structure(expression, force)
            case Stored(expression=expression, reason=reason):
                return self._stored(expression, reason, force)
            case Casted(cast=cast, reason=reason):
                return self._cast(cast, reason, force)
            case _:
                assert_never(item)

    def _same(self, item: Same, force: bool) -> bool:
        call, functor, typing = item.call, item.functor, self.typing
        known = [typing.known(arg) for arg in call.args]
        if functor.name in WITH_SQL and any(kind is not None and _is_sql(kind) for kind in known):
            node = typing.nodes[id(call)]
            return self._registered(Registered(functor.name, call.args, node, call), force)
        if all(kind is None for kind in known) and not force:
            return False
        for arg in (*call.args[1:], call):
            typing.unify(call.args[0], arg, call.span)
        typing.checks.append((call.args[0], functor.domains, f"an operand of {functor.name}"))
        return True

    def _registered(self, item: Registered, force: bool) -> bool:
        typing = self.typing
        kinds = [typing.known(arg) for arg in item.args]
        if any(kind is None for kind in kinds) and not force:
            return False
        found = self._resolve(item.function, item.args, kinds, item.origin.span)
        if found is None:
            return True
        typing.overloads[id(item.origin)] = found
        kind = kind_of_stored(found[1])
        reason = Reason(kind, f"the result of {item.function}", item.origin.span)
        old = typing.kinds.learn(item.node, reason)
        if isinstance(item.origin, ast.Call):
            typing.report(item.origin, reason, old)
        elif old is not None:
            message = f"{item.function} is no condition: its result is {kind}"
            typing.error("type", message, item.origin.span)
        return True

    def _resolve(
        self, function: str, args: tuple[ast.Expression, ...], kinds: list[TypeKind | None], span: Span
    ) -> tuple[tuple[Type, ...], Type] | None:
        """The overload for arguments, of which those of unknown kind are numbers; noted if there is none."""
        types: list[Type] = []
        for arg, kind in zip(args, kinds, strict=True):
            if kind is None:
                self.typing.learn(arg, Reason(NUMBER, "", arg.span))
            types.append(UNKNOWN if isinstance(arg, ast.String) else (kind or NUMBER).type)
        own = self.typing.table.functions.get(function.lower())
        if own is not None:
            overloads = (part.rule(tuple(types)) for part in own.definition.overloads)
            signature = next((made for made in overloads if made is not None), None)
            if signature is None:
                message = f"{function} does not take ({', '.join(map(str, types))})"
                self.typing.error("functor", message, span, f"it takes {own.definition.accepts}")
                return None
            return signature.args, signature.result
        try:
            found = resolve(SQL_NAMES.get(function, function), tuple(types))
        except (ProgrammingError, NotSupportedError) as error:
            unknown = error.message.startswith("unknown function")
            message = f"functor {function} is not defined" if unknown else error.message
            known = (*FUNCTORS, *(one.name for one in functions()))
            hint = did_you_mean(function, known) if unknown else error.hint
            self.typing.error("undefined" if unknown else "functor", message, span, hint)
            return None
        return found.arg_types, found.result_type

    def _comparison(self, comparison: ast.Comparison, force: bool) -> bool:
        left, right = comparison.left, comparison.right
        ours, theirs = self.typing.known(left), self.typing.known(right)
        if ours is None and theirs is None and not force:
            return False
        sql = [kind for kind in (ours, theirs) if kind is not None and _is_sql(kind)]
        if sql and ours != theirs:
            unknown = left if ours is None else right if theirs is None else None
            if unknown is not None and not isinstance(unknown, LITERALS):
                if not force:
                    return False
                self.typing.unify(left, right, comparison.span)
                return True
            found = self._resolve(comparison.operator, (left, right), [ours, theirs], comparison.span)
            if found is not None:
                self.typing.overloads[id(comparison)] = found
            return True
        self.typing.unify(left, right, comparison.span)
        return True

    def _structure(self, expression: ast.Record | ast.Nil, force: bool) -> bool:
        kind = self.typing.known(expression)
        if kind is None:
            if force:
                message = f"the record type of {describe(expression)} is not known"
                hint = "say it: as([...], Type)"
                self.typing.error("structure", message, expression.span, hint)
            return force
        record = self.typing.table.records.get(kind.structure)
        if record is None:
            what = "nil" if isinstance(expression, ast.Nil) else "a record"
            message = f"type mismatch: {what} cannot be {kind}"
            self.typing.error("type", message, expression.span)
        elif isinstance(expression, ast.Record):
            self.fields(f"record {record.structure}", record.fields, expression.args, expression.span)
        return True

    def _cast(self, cast: ast.Cast, reason: Reason, force: bool) -> bool:
        kind = self.typing.known(cast.value)
        if kind is None and not force:
            return False
        if kind is None or not is_number_of(kind, reason.kind):
            self.typing.learn(cast.value, reason)
        return True

    def _stored(self, expression: ast.Expression, reason: Reason, force: bool) -> bool:
        kind = self.typing.known(expression)
        if kind is None and not force:
            return False
        if kind is None or not (kind.type.is_numeric and reason.kind.type.is_numeric):
            self.typing.learn(expression, reason)
        return True


def is_number_of(source: TypeKind, target: TypeKind) -> bool:
    """Whether ``as`` makes of a symbol, a record or another number the number that stands for it, or has its
    bits.
    """
    if target.domain is Domain.FLOAT:
        return source.domain in WHOLE
    return (
        target.domain in WHOLE
        and source.domain in (*WHOLE, *TEXTS, Domain.FLOAT)
        and source.domain != target.domain
    )


def _is_sql(kind: TypeKind) -> bool:
    return kind.domain is Domain.SQL


def infer(
    rule: FlatRule,
    head: RelationInfo | None,
    relations: dict[str, RelationInfo],
    table: TypeTable,
    diagnostics: Diagnostics,
) -> Typing:
    """The typing of a rule whose relations are known and of the right arity."""
    typing = Typing(table, diagnostics)
    run = _Inference(typing, relations, rule.takes_parameters)
    for literal in rule.body:
        run.literal(literal)
    if rule.head is not None and head is not None:
        run.head(rule.head, head)
    solve(typing, run.fields)
    typing.finish()
    return typing


@dataclass(slots=True)
class _Inference:
    typing: Typing
    relations: dict[str, RelationInfo]
    takes_parameters: bool

    def literal(self, literal: FlatLiteral) -> None:
        match literal:
            case ast.Comparison(left=left, right=right):
                self.visit(left)
                self.visit(right)
                self.typing.pending.append(Compared(literal))
            case ast.Atom() | ast.Not():
                atom = atom_of(literal)
                if atom is not None:
                    self.atom(atom)
            case _:
                assert_never(literal)

    def atom(self, atom: ast.Atom) -> None:
        relation = self.relations.get(atom.name.text)
        if relation is None:
            self._constraint(atom)
            return
        for arg, column in zip(atom.args, relation.columns, strict=True):
            kind = self.typing.table.kinds[column.type.name]
            self.expect(arg, Reason(kind, f"column {column.name} of {relation.name}", arg.span))

    def _constraint(self, atom: ast.Atom) -> None:
        """``match(p, s)`` and other tests that look like atoms."""
        for arg in atom.args:
            if atom.name.text in CONSTRAINTS:
                self.expect(arg, Reason(SYMBOL, f"an argument of {atom.name}", arg.span))
            else:
                self.visit(arg)
        if atom.name.text not in CONSTRAINTS:
            node = self.typing.kinds.node()
            self.typing.kinds.learn(node, Reason(CONDITION, "a condition", atom.span))
            self.typing.pending.append(Registered(atom.name.text, atom.args, node, atom))

    def head(self, atom: ast.Atom, relation: RelationInfo) -> None:
        for arg, column in zip(atom.args, relation.columns, strict=True):
            reason = Reason(
                self.typing.table.kinds[column.type.name],
                f"column {column.name} of {relation.name}",
                arg.span,
            )
            aggregate = head_aggregate(arg)
            if aggregate is None and reason.kind.domain is Domain.SQL:
                self.visit(arg)
                if not isinstance(arg, LITERALS):
                    self.typing.pending.append(Stored(arg, reason))
                continue
            if aggregate is None:
                self.expect(arg, reason)
                continue
            function, value = aggregate
            node = self.typing.nodes[id(arg)] = self.typing.kinds.node()
            self._aggregate_result(function, value, node, arg)
            self.typing.learn(arg, reason)

    def expect(self, expression: ast.Expression, reason: Reason) -> None:
        """The expression must be of the reason's kind; literals become values of SQL's types."""
        self.visit(expression)
        if reason.kind.domain is not Domain.SQL or not isinstance(expression, LITERALS):
            self.typing.learn(expression, reason)

    def visit(self, expression: ast.Expression) -> int:
        """The expression's node, made when it is first met."""
        known = self.typing.nodes.get(id(expression))
        if known is not None:
            return known
        if isinstance(expression, ast.Variable):
            node = self.typing.names.setdefault(expression.name, len(self.typing.kinds.parents))
            if node == len(self.typing.kinds.parents):
                self.typing.kinds.node()
        else:
            node = self.typing.kinds.node()
        self.typing.nodes[id(expression)] = node
        self._constrain(expression, node)
        return node

    def _constrain(self, expression: ast.Expression, node: int) -> None:
        match expression:
            case ast.Integer(unsigned=True):
                self.typing.kinds.learn(node, Reason(UNSIGNED, "", expression.span))
            case ast.Integer():
                self.typing.checks.append((expression, NUMERIC, "an integer"))
            case ast.Float():
                self.typing.kinds.learn(node, Reason(FLOAT, "", expression.span))
            case ast.String():
                self.typing.kinds.learn(node, Reason(SYMBOL, "", expression.span))
            case ast.Boolean():
                self.typing.kinds.learn(node, Reason(CONDITION, "", expression.span))
            case ast.Nil():
                self.typing.pending.append(Structured(expression))
            case ast.Record(args=args):
                for arg in args:
                    self.visit(arg)
                self.typing.pending.append(Structured(expression))
            case ast.Dollar():
                self._dollar(expression, node)
            case ast.Cast():
                self._cast(expression, node)
            case ast.Aggregate(function=function, value=value, body=body):
                for literal in literals(body):
                    self.literal(literal)
                self._aggregate(expression, function, value, node)
            case ast.Call():
                self._call(expression, node)
            case ast.Variable() | ast.Underscore():
                pass
            case _:
                assert_never(expression)

    def _dollar(self, expression: ast.Dollar, node: int) -> None:
        branch = self.typing.table.branches.get(expression.name)
        if branch is None and expression.args is None and self.takes_parameters:
            first = self.typing.names.setdefault(f"${expression.name}", node)
            self.typing.kinds.unify(first, node)
            return
        if branch is None:
            hint = did_you_mean(expression.name, self.typing.table.branches)
            message = f"branch {expression.name} is not defined"
            self.typing.error("undefined", message, expression.span, hint)
            for arg in expression.args or ():
                self.visit(arg)
            return
        self.typing.kinds.learn(
            node, Reason(self.typing.table.kinds[branch.structure], f"branch {branch.name}", expression.span)
        )
        self.fields(f"branch {branch.name}", branch.fields, expression.args or (), expression.span)

    def fields(
        self, what: str, fields: tuple[tuple[str, str], ...], args: tuple[ast.Expression, ...], span: Span
    ) -> None:
        if len(fields) != len(args):
            message = f"{what} has {plural(len(fields), 'field')}, {given(len(args))}"
            self.typing.error("structure", message, span)
            for arg in args:
                self.visit(arg)
            return
        for (name, type_), arg in zip(fields, args, strict=True):
            self.expect(arg, Reason(self.typing.table.kinds[type_], f"field {name} of {what}", arg.span))

    def _cast(self, expression: ast.Cast, node: int) -> None:
        self.visit(expression.value)
        kind = self.typing.table.kinds.get(expression.type.text)
        if kind is None:
            hint = did_you_mean(expression.type.text, self.typing.table.kinds)
            self.typing.error(
                "undefined", f"type {expression.type} is not defined", expression.type.span, hint
            )
            return
        reason = Reason(kind, f"as {expression.type}", expression.span)
        self.typing.kinds.learn(node, reason)
        own = _kind_of_constant(expression.value)
        if own is not None and is_number_of(own, kind):
            self.typing.learn(expression.value, Reason(own, "what it is", expression.value.span))
            self.typing.pending.append(Casted(expression, reason))
        elif isinstance(expression.value, (*LITERALS, ast.Nil, ast.Record)):
            self.typing.learn(expression.value, reason)
        else:
            self.typing.pending.append(Casted(expression, reason))

    def _aggregate(
        self, expression: ast.Aggregate, function: str, value: ast.Expression | None, node: int
    ) -> None:
        if (value is not None) != takes_value(function):
            takes = "a value" if takes_value(function) else "no value"
            hint = f"{function} x : {{ body }}" if takes_value(function) else f"{function} : {{ body }}"
            self.typing.error("arity", f"{function} takes {takes}", expression.span, hint)
        if value is not None:
            self.visit(value)
        self._aggregate_result(function, value, node, expression)

    def _aggregate_result(
        self, function: str, value: ast.Expression | None, node: int, expression: ast.Expression
    ) -> None:
        operand = None if value is None else self.visit(value)
        result = result_of(function)
        match result:
            case Result.WHOLE:
                self.typing.checks.append((expression, WHOLE, f"a {function}"))
                return
            case Result.FLOAT:
                self.typing.kinds.learn(node, Reason(FLOAT, f"a {function}", expression.span))
            case Result.OPERAND:
                if operand is not None:
                    self.typing.kinds.unify(operand, node)
                if value is not None and function in self.typing.table.folds:
                    kind = self.typing.table.folds[function]
                    self.typing.learn(value, Reason(kind, "what the functor takes", value.span))
            case _:
                assert_never(result)
        if value is not None:
            self.typing.checks.append((value, operand_domains(function), f"the operand of {function}"))

    def _call(self, call: ast.Call, node: int) -> None:
        for arg in call.args:
            self.visit(arg)
        table = self.typing.table
        functor = table.functors.get(call.function) or functor_named(call.function)
        if call.function in ("__ITERATION__", "$delta") and not call.args:
            self.typing.checks.append((call, WHOLE, "the number of a round"))
            return
        if call.function.startswith("@") and functor is None:
            hint = did_you_mean(call.function, table.functors) or f".functor {call.function[1:]}(...)"
            self.typing.error("undefined", f"functor {call.function} is not declared", call.span, hint)
            return
        if call.function in table.functors and call.function not in table.functions:
            name = call.function.removeprefix("@")
            message = f"there is no function for functor {name}"
            hint = f'db.create_function("{name}", ...), or db.datalog(..., functors={{"{name}": ...}})'
            self.typing.error("undefined", message, call.span, hint)
        if functor is None:
            self.typing.pending.append(Registered(call.function, call.args, node, call))
            return
        if not functor.least <= len(call.args) <= functor.most:
            takes = plural(functor.least, "argument")
            if functor.least < functor.most:
                few = len(call.args) < functor.least
                takes = f"at least {takes}" if few else f"at most {plural(functor.most, 'argument')}"
            message = f"functor {call.function} takes {takes}, {given(len(call.args))}"
            self.typing.error("functor", message, call.span)
            return
        self._expect_arguments(call, functor)
        if functor.result is not None:
            self.typing.kinds.learn(node, Reason(functor.result, f"the result of {call.function}", call.span))
        elif functor.scheme is Scheme.SAME:
            self.typing.pending.append(Same(call, functor))

    def _expect_arguments(self, call: ast.Call, functor: Functor) -> None:
        for position, arg in enumerate(call.args):
            if functor.scheme is Scheme.FIXED:
                self.expect(arg, Reason(functor.args[position], f"an argument of {call.function}", arg.span))
            elif functor.scheme is Scheme.CONVERT and len(functor.domains) == 1:
                (domain,) = functor.domains
                kind = self.typing.table.kinds[domain.value]
                self.expect(arg, Reason(kind, f"the argument of {call.function}", arg.span))
            elif functor.scheme is Scheme.CONVERT:
                self.typing.checks.append((arg, functor.domains, f"the argument of {call.function}"))
            elif functor.result is not None:
                self.expect(arg, Reason(functor.result, f"an argument of {call.function}", arg.span))


def _kind_of_constant(expression: ast.Expression) -> TypeKind | None:
    """What a constant that has a sign, an ``u`` or a point is of itself, whatever it stands for."""
    is_negative = isinstance(expression, ast.Call) and expression.function == "neg"
    number = expression.args[0] if isinstance(expression, ast.Call) and is_negative else expression
    if isinstance(number, ast.Float):
        return FLOAT
    if isinstance(number, ast.Integer) and number.unsigned:
        return UNSIGNED
    return NUMBER if is_negative and isinstance(number, ast.Integer) else None
