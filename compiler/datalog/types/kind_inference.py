"""Kind inference: the kind of every expression of a flat rule, and the overload of each call.

:class:`Kinds` unifies the kinds of expressions. Overloads, comparisons and records are
constraints that wait until enough kinds are known. :func:`solve` then solves them.
"""

from collections.abc import Callable
from dataclasses import field
from typing import assert_never

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, count_text, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import FlatRule, original_name
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
    kind_of_sql_type,
)
from kpg.compiler.datalog.types.functors import (
    CONSTRAINTS,
    EXTREMES,
    FUNCTORS,
    INTEGER_DOMAINS,
    NUMERIC_DOMAINS,
    RUNTIME_NAMES,
    ResultKind,
    find_functor,
    operand_domains,
    result_kind,
    takes_value,
)
from kpg.compiler.rules.core import Domain
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.functions import functions, resolve
from kpg.runtime.records import dataclass
from kpg.runtime.types import UNKNOWN, Type


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why an expression has a kind."""

    kind: TypeKind
    text: str
    span: Span | None


@dataclass(slots=True)
class Kinds:
    """Union-find structure of nodes.

    Each class has at most one kind, with its reason.
    """

    parents: list[int] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)

    def add_node(self) -> int:
        """Add a node with a class of its own."""
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def root(self, node: int) -> int:
        """Return the representative of the node's class."""
        while self.parents[node] != node:
            self.parents[node] = self.parents[self.parents[node]]
            node = self.parents[node]
        return node

    def kind(self, node: int) -> TypeKind | None:
        """Return the kind of the node's class, or None if unknown."""
        reason = self.reasons.get(self.root(node))
        return None if reason is None else reason.kind

    def assign(self, node: int, reason: Reason) -> Reason | None:
        """Set the kind of a class, and return the reason for another kind that it already has."""
        root = self.root(node)
        old = self.reasons.setdefault(root, reason)
        return None if old.kind == reason.kind else old

    def unify(self, left: int, right: int) -> tuple[Reason, Reason] | None:
        """Merge two classes.

        If their kinds differ, leave them unchanged and return the reasons.
        """
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
"""Types to which arguments are cast, and the type of the result."""


@dataclass(slots=True)
class SameKindConstraint:
    """The arguments and the result of a call have one kind, unless SQL types are involved."""

    call: ast.Call
    functor: Functor


@dataclass(slots=True)
class OverloadConstraint:
    """A call of a runtime function, written as ``origin``.

    Its result has the kind of ``node``.
    """

    function: str
    args: tuple[ast.Expression, ...]
    node: int
    origin: ast.Call | ast.Atom


@dataclass(slots=True)
class ComparisonConstraint:
    """Both sides of a comparison have one kind, unless SQL types are involved."""

    comparison: ast.Comparison


@dataclass(slots=True)
class RecordConstraint:
    """A record or nil.

    Its fields are known when its type is.
    """

    expression: ast.Record | ast.Nil


@dataclass(slots=True)
class ColumnConstraint:
    """A head argument for a column of a SQL type.

    Other numbers are cast to a DECIMAL.
    """

    expression: ast.Expression
    reason: Reason


@dataclass(slots=True)
class CastConstraint:
    """A value that is reinterpreted as another kind."""

    cast: ast.Cast
    reason: Reason


Constraint = (
    SameKindConstraint
    | OverloadConstraint
    | ComparisonConstraint
    | RecordConstraint
    | ColumnConstraint
    | CastConstraint
)


MAX_QUOTED = 40
"""Maximum number of characters of a quoted expression in an error message."""


def describe(expression: ast.Expression) -> str:
    """Return the name or text of an expression for error messages."""
    match expression:
        case ast.Variable(name=name):
            return f"variable {original_name(name)}"
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
            return _shorten(expression.span)
        case ast.Call() | ast.Cast() | ast.Aggregate():
            return _shorten(expression.span)
        case _:
            assert_never(expression)


def _shorten(span: Span) -> str:
    text = " ".join(span.source[span.start : span.end].split())
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"


@dataclass(slots=True)
class Typing:
    """The kinds of a rule's expressions.

    ``has_failed`` is whether they are inconsistent. ``nodes`` and ``overloads`` are keyed by the
    identity of the syntax node.
    """

    table: TypeTable
    diagnostics: Diagnostics
    kinds: Kinds = field(default_factory=Kinds)
    nodes: dict[int, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    overloads: dict[int, Overload] = field(default_factory=dict)
    pending: list[Constraint] = field(default_factory=list)
    checks: list[tuple[ast.Expression, frozenset[Domain], str]] = field(default_factory=list)
    reported: set[str] = field(default_factory=set)
    has_failed: bool = False

    def kind(self, expression: ast.Expression) -> TypeKind:
        """Return the kind of an expression.

        The default is number.
        """
        return self.known_kind(expression) or NUMBER

    def known_kind(self, expression: ast.Expression) -> TypeKind | None:
        """Return the kind of an expression, or None if it is unknown."""
        return self.kinds.kind(self.nodes[id(expression)])

    def assign(self, expression: ast.Expression, reason: Reason) -> None:
        """Assign a kind to an expression, and report if it has another one."""
        self.report_mismatch(expression, reason, self.kinds.assign(self.nodes[id(expression)], reason))

    def unify(self, left: ast.Expression, right: ast.Expression, span: Span) -> None:
        """Require that two expressions have one kind, and report if they do not."""
        clash = self.kinds.unify(self.nodes[id(left)], self.nodes[id(right)])
        if clash is None:
            return
        self.has_failed = True
        names = {describe(left), describe(right)}
        if names & self.reported:
            return
        self.reported |= names
        ours, theirs = clash[0].kind, clash[1].kind
        message = f"type mismatch: {describe(left)} is {ours} and {describe(right)} is {theirs}"
        self.report_error("type", message, span, conversion_hint(ours, theirs))

    def report_mismatch(self, expression: ast.Expression, new: Reason, old: Reason | None) -> None:
        """Report, once per expression, that it has two kinds, unless ``old`` is None."""
        if old is None:
            return
        self.has_failed = True
        what = describe(expression)
        if what in self.reported:
            return
        self.reported.add(what)
        message = f"type mismatch: {what} is {old.kind} ({old.text}) and {new.kind} ({new.text})"
        if old.text in (new.text, ""):
            message = f"type mismatch: {what} is {old.kind}, not {new.kind} ({new.text})"
        self.report_error("type", message, new.span or expression.span, conversion_hint(old.kind, new.kind))

    def report_error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Report an error."""
        self.has_failed = True
        self.diagnostics.error(code, message, span, hint=hint)

    def finish(self) -> None:
        """Check the required domains of kinds.

        An unknown kind becomes number.
        """
        for expression, domains, what in self.checks:
            kind = self.known_kind(expression)
            name = describe(expression)
            if kind is None:
                self.assign(expression, Reason(NUMBER, "", expression.span))
            elif kind.domain not in domains and name not in self.reported:
                self.reported.add(name)
                message = f"type mismatch: {name} is {kind}, but {what} is {_alternatives(domains)}"
                if isinstance(expression, ast.Integer):
                    message = f"type mismatch: {name} is a number, not {kind}"
                self.report_error("type", message, expression.span)


def conversion_hint(source: TypeKind, target: TypeKind) -> str | None:
    """Return a hint that shows how to convert, or None."""
    if target in (NUMBER, UNSIGNED, FLOAT) and source.domain in (*NUMERIC_DOMAINS, Domain.SYMBOL):
        return f"convert it: to_{target}(...)"
    if target == SYMBOL and source.domain in NUMERIC_DOMAINS:
        return "convert it: to_string(...)"
    return None


def _alternatives(domains: frozenset[Domain]) -> str:
    names = [domain.value for domain in Domain if domain in domains and domain is not Domain.SQL]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


FieldConstraint = Callable[[str, tuple[tuple[str, str], ...], tuple[ast.Expression, ...], Span], None]
"""Requires that arguments are the fields of a record or branch."""
SQL_OPERATORS = frozenset((*"+-*/%", "neg", *EXTREMES))
CODED_DOMAINS = (Domain.SYMBOL, Domain.RECORD, Domain.ADT)
"""Domains whose values have dictionary codes."""
LITERALS = (ast.Integer, ast.Float, ast.Boolean, ast.String)


def solve(typing: Typing, fields: FieldConstraint) -> None:
    """Solve all pending constraints.

    If none can be solved, the one with the most known kinds is forced.
    """
    run = _Solver(typing, fields)
    while typing.pending:
        items, typing.pending = typing.pending, []
        waiting = [item for item in items if not run.solve(item, force=False)]
        if len(waiting) == len(items):
            first = min(waiting, key=run.rank)
            waiting.remove(first)
            run.solve(first, force=True)
        typing.pending = [*waiting, *typing.pending]


@dataclass(slots=True)
class _Solver:
    typing: Typing
    fields: FieldConstraint

    def rank(self, item: Constraint) -> int:
        """Return the rank of a constraint: those with known operands come first."""
        match item:
            case SameKindConstraint(call=ast.Call(args=parts)) | OverloadConstraint(args=parts):
                pass
            case ComparisonConstraint(comparison=comparison):
                parts = (comparison.left, comparison.right)
            case CastConstraint(cast=one):
                parts = (one.value,)
            case RecordConstraint() | ColumnConstraint():
                return 2
            case _:
                assert_never(item)
        return 0 if any(self.typing.known_kind(part) is not None for part in parts) else 1

    def solve(self, item: Constraint, *, force: bool) -> bool:
        """Solve a constraint and return whether that was possible.

        ``force`` treats unknown kinds as numbers.
        """
        match item:
            case SameKindConstraint():
                return self._solve_same_kind(item, force)
            case OverloadConstraint():
                return self._solve_overload(item, force)
            case ComparisonConstraint(comparison=comparison):
                return self._solve_comparison(comparison, force)
            case RecordConstraint(expression=expression):
                return self._solve_record(expression, force)
            case ColumnConstraint(expression=expression, reason=reason):
                return self._solve_column(expression, reason, force)
            case CastConstraint(cast=cast, reason=reason):
                return self._solve_cast(cast, reason, force)
            case _:
                assert_never(item)

    def _solve_same_kind(self, item: SameKindConstraint, force: bool) -> bool:
        call, functor, typing = item.call, item.functor, self.typing
        known = [typing.known_kind(arg) for arg in call.args]
        if functor.name in SQL_OPERATORS and any(kind is not None and _is_sql(kind) for kind in known):
            node = typing.nodes[id(call)]
            return self._solve_overload(OverloadConstraint(functor.name, call.args, node, call), force)
        if all(kind is None for kind in known) and not force:
            return False
        for arg in (*call.args[1:], call):
            typing.unify(call.args[0], arg, call.span)
        typing.checks.append((call.args[0], functor.domains, f"an operand of {functor.name}"))
        return True

    def _solve_overload(self, item: OverloadConstraint, force: bool) -> bool:
        typing = self.typing
        kinds = [typing.known_kind(arg) for arg in item.args]
        if any(kind is None for kind in kinds) and not force:
            return False
        found = self._resolve(item.function, item.args, kinds, item.origin.span)
        if found is None:
            return True
        typing.overloads[id(item.origin)] = found
        kind = kind_of_sql_type(found[1])
        reason = Reason(kind, f"the result of {item.function}", item.origin.span)
        old = typing.kinds.assign(item.node, reason)
        if isinstance(item.origin, ast.Call):
            typing.report_mismatch(item.origin, reason, old)
        elif old is not None:
            message = f"{item.function} is no condition: its result is {kind}"
            typing.report_error("type", message, item.origin.span)
        return True

    def _resolve(
        self, function: str, args: tuple[ast.Expression, ...], kinds: list[TypeKind | None], span: Span
    ) -> tuple[tuple[Type, ...], Type] | None:
        """Return the overload for arguments, or report that there is none.

        Unknown kinds become numbers.
        """
        types: list[Type] = []
        for arg, kind in zip(args, kinds, strict=True):
            if kind is None:
                self.typing.assign(arg, Reason(NUMBER, "", arg.span))
            types.append(UNKNOWN if isinstance(arg, ast.String) else (kind or NUMBER).type)
        own = self.typing.table.functions.get(function.lower())
        if own is not None:
            overloads = (part.rule(tuple(types)) for part in own.definition.overloads)
            signature = next((candidate for candidate in overloads if candidate is not None), None)
            if signature is None:
                message = f"{function} does not take ({', '.join(map(str, types))})"
                self.typing.report_error("functor", message, span, f"it takes {own.definition.accepts}")
                return None
            return signature.args, signature.result
        try:
            found = resolve(RUNTIME_NAMES.get(function, function), tuple(types))
        except (ProgrammingError, NotSupportedError) as error:
            unknown = error.message.startswith("unknown function")
            message = f"functor {function} is not defined" if unknown else error.message
            known = (*FUNCTORS, *(one.name for one in functions()))
            hint = did_you_mean(function, known) if unknown else error.hint
            self.typing.report_error("undefined" if unknown else "functor", message, span, hint)
            return None
        return found.arg_types, found.result_type

    def _solve_comparison(self, comparison: ast.Comparison, force: bool) -> bool:
        left, right = comparison.left, comparison.right
        ours, theirs = self.typing.known_kind(left), self.typing.known_kind(right)
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

    def _solve_record(self, expression: ast.Record | ast.Nil, force: bool) -> bool:
        kind = self.typing.known_kind(expression)
        if kind is None:
            if force:
                message = f"the record type of {describe(expression)} is not known"
                hint = "say it: as([...], Type)"
                self.typing.report_error("structure", message, expression.span, hint)
            return force
        record = self.typing.table.records.get(kind.structure)
        if record is None:
            what = "nil" if isinstance(expression, ast.Nil) else "a record"
            message = f"type mismatch: {what} cannot be {kind}"
            self.typing.report_error("type", message, expression.span)
        elif isinstance(expression, ast.Record):
            self.fields(f"record {record.structure}", record.fields, expression.args, expression.span)
        return True

    def _solve_cast(self, cast: ast.Cast, reason: Reason, force: bool) -> bool:
        kind = self.typing.known_kind(cast.value)
        if kind is None and not force:
            return False
        if kind is None or not is_reinterpretation(kind, reason.kind):
            self.typing.assign(cast.value, reason)
        return True

    def _solve_column(self, expression: ast.Expression, reason: Reason, force: bool) -> bool:
        kind = self.typing.known_kind(expression)
        if kind is None and not force:
            return False
        if kind is None or not (kind.type.is_numeric and reason.kind.type.is_numeric):
            self.typing.assign(expression, reason)
        return True


def is_reinterpretation(source: TypeKind, target: TypeKind) -> bool:
    """Return whether ``as`` gives the dictionary code of a value, or the bits of another number."""
    if target.domain is Domain.FLOAT:
        return source.domain in INTEGER_DOMAINS
    return (
        target.domain in INTEGER_DOMAINS
        and source.domain in (*INTEGER_DOMAINS, *CODED_DOMAINS, Domain.FLOAT)
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
    """Return the typing of a rule whose relations exist and have the right arity."""
    typing = Typing(table, diagnostics)
    run = _ConstraintGenerator(typing, relations, rule.takes_parameters)
    for literal in rule.body:
        run.visit_literal(literal)
    if rule.head is not None and head is not None:
        run.visit_head(rule.head, head)
    solve(typing, run.expect_fields)
    typing.finish()
    return typing


@dataclass(slots=True)
class _ConstraintGenerator:
    typing: Typing
    relations: dict[str, RelationInfo]
    takes_parameters: bool

    def visit_literal(self, literal: FlatLiteral) -> None:
        match literal:
            case ast.Comparison(left=left, right=right):
                self.visit(left)
                self.visit(right)
                self.typing.pending.append(ComparisonConstraint(literal))
            case ast.Atom() | ast.Not():
                atom = atom_of(literal)
                if atom is not None:
                    self.visit_atom(atom)
            case _:
                assert_never(literal)

    def visit_atom(self, atom: ast.Atom) -> None:
        relation = self.relations.get(atom.name.text)
        if relation is None:
            self._visit_constraint(atom)
            return
        for arg, column in zip(atom.args, relation.columns, strict=True):
            kind = self.typing.table.kinds[column.type.name]
            self.expect(arg, Reason(kind, f"column {column.name} of {relation.name}", arg.span))

    def _visit_constraint(self, atom: ast.Atom) -> None:
        """Visit ``match(p, s)`` and other tests that are written like atoms."""
        for arg in atom.args:
            if atom.name.text in CONSTRAINTS:
                self.expect(arg, Reason(SYMBOL, f"an argument of {atom.name}", arg.span))
            else:
                self.visit(arg)
        if atom.name.text not in CONSTRAINTS:
            node = self.typing.kinds.add_node()
            self.typing.kinds.assign(node, Reason(CONDITION, "a condition", atom.span))
            self.typing.pending.append(OverloadConstraint(atom.name.text, atom.args, node, atom))

    def visit_head(self, atom: ast.Atom, relation: RelationInfo) -> None:
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
                    self.typing.pending.append(ColumnConstraint(arg, reason))
                continue
            if aggregate is None:
                self.expect(arg, reason)
                continue
            function, value = aggregate
            node = self.typing.nodes[id(arg)] = self.typing.kinds.add_node()
            self._add_result_constraints(function, value, node, arg)
            self.typing.assign(arg, reason)

    def expect(self, expression: ast.Expression, reason: Reason) -> None:
        """Require that the expression has the reason's kind.

        Literals become values of SQL types.
        """
        self.visit(expression)
        if reason.kind.domain is not Domain.SQL or not isinstance(expression, LITERALS):
            self.typing.assign(expression, reason)

    def visit(self, expression: ast.Expression) -> int:
        """Return the expression's node, added at its first visit."""
        known = self.typing.nodes.get(id(expression))
        if known is not None:
            return known
        if isinstance(expression, ast.Variable):
            node = self.typing.names.setdefault(expression.name, len(self.typing.kinds.parents))
            if node == len(self.typing.kinds.parents):
                self.typing.kinds.add_node()
        else:
            node = self.typing.kinds.add_node()
        self.typing.nodes[id(expression)] = node
        self._constrain(expression, node)
        return node

    def _constrain(self, expression: ast.Expression, node: int) -> None:
        match expression:
            case ast.Integer(unsigned=True):
                self.typing.kinds.assign(node, Reason(UNSIGNED, "", expression.span))
            case ast.Integer():
                self.typing.checks.append((expression, NUMERIC_DOMAINS, "an integer"))
            case ast.Float():
                self.typing.kinds.assign(node, Reason(FLOAT, "", expression.span))
            case ast.String():
                self.typing.kinds.assign(node, Reason(SYMBOL, "", expression.span))
            case ast.Boolean():
                self.typing.kinds.assign(node, Reason(CONDITION, "", expression.span))
            case ast.Nil():
                self.typing.pending.append(RecordConstraint(expression))
            case ast.Record(args=args):
                for arg in args:
                    self.visit(arg)
                self.typing.pending.append(RecordConstraint(expression))
            case ast.Dollar():
                self._visit_dollar(expression, node)
            case ast.Cast():
                self._visit_cast(expression, node)
            case ast.Aggregate(function=function, value=value, body=body):
                for literal in literals(body):
                    self.visit_literal(literal)
                self._visit_aggregate(expression, function, value, node)
            case ast.Call():
                self._visit_call(expression, node)
            case ast.Variable() | ast.Underscore():
                pass
            case _:
                assert_never(expression)

    def _visit_dollar(self, expression: ast.Dollar, node: int) -> None:
        branch = self.typing.table.branches.get(expression.name)
        if branch is None and expression.args is None and self.takes_parameters:
            first = self.typing.names.setdefault(f"${expression.name}", node)
            self.typing.kinds.unify(first, node)
            return
        if branch is None:
            hint = did_you_mean(expression.name, self.typing.table.branches)
            message = f"branch {expression.name} is not defined"
            self.typing.report_error("undefined", message, expression.span, hint)
            for arg in expression.args or ():
                self.visit(arg)
            return
        self.typing.kinds.assign(
            node, Reason(self.typing.table.kinds[branch.structure], f"branch {branch.name}", expression.span)
        )
        self.expect_fields(f"branch {branch.name}", branch.fields, expression.args or (), expression.span)

    def expect_fields(
        self, owner: str, fields: tuple[tuple[str, str], ...], args: tuple[ast.Expression, ...], span: Span
    ) -> None:
        if len(fields) != len(args):
            message = f"{owner} has {plural(len(fields), 'field')}, {count_text(len(args))}"
            self.typing.report_error("structure", message, span)
            for arg in args:
                self.visit(arg)
            return
        for (name, type_), arg in zip(fields, args, strict=True):
            self.expect(arg, Reason(self.typing.table.kinds[type_], f"field {name} of {owner}", arg.span))

    def _visit_cast(self, expression: ast.Cast, node: int) -> None:
        self.visit(expression.value)
        kind = self.typing.table.kinds.get(expression.type.text)
        if kind is None:
            hint = did_you_mean(expression.type.text, self.typing.table.kinds)
            self.typing.report_error(
                "undefined", f"type {expression.type} is not defined", expression.type.span, hint
            )
            return
        reason = Reason(kind, f"as {expression.type}", expression.span)
        self.typing.kinds.assign(node, reason)
        own = _constant_kind(expression.value)
        if own is not None and is_reinterpretation(own, kind):
            self.typing.assign(expression.value, Reason(own, "what it is", expression.value.span))
            self.typing.pending.append(CastConstraint(expression, reason))
        elif isinstance(expression.value, (*LITERALS, ast.Nil, ast.Record)):
            self.typing.assign(expression.value, reason)
        else:
            self.typing.pending.append(CastConstraint(expression, reason))

    def _visit_aggregate(
        self, expression: ast.Aggregate, function: str, value: ast.Expression | None, node: int
    ) -> None:
        if (value is not None) != takes_value(function):
            takes = "a value" if takes_value(function) else "no value"
            hint = f"{function} x : {{ body }}" if takes_value(function) else f"{function} : {{ body }}"
            self.typing.report_error("arity", f"{function} takes {takes}", expression.span, hint)
        if value is not None:
            self.visit(value)
        self._add_result_constraints(function, value, node, expression)

    def _add_result_constraints(
        self, function: str, value: ast.Expression | None, node: int, expression: ast.Expression
    ) -> None:
        operand = None if value is None else self.visit(value)
        result = result_kind(function)
        match result:
            case ResultKind.INTEGER:
                self.typing.checks.append((expression, INTEGER_DOMAINS, f"a {function}"))
                return
            case ResultKind.FLOAT:
                self.typing.kinds.assign(node, Reason(FLOAT, f"a {function}", expression.span))
            case ResultKind.OPERAND:
                if operand is not None:
                    self.typing.kinds.unify(operand, node)
                if value is not None and function in self.typing.table.folds:
                    kind = self.typing.table.folds[function]
                    self.typing.assign(value, Reason(kind, "what the functor takes", value.span))
            case _:
                assert_never(result)
        if value is not None:
            self.typing.checks.append((value, operand_domains(function), f"the operand of {function}"))

    def _visit_call(self, call: ast.Call, node: int) -> None:
        for arg in call.args:
            self.visit(arg)
        table = self.typing.table
        functor = table.functors.get(call.function) or find_functor(call.function)
        if call.function in ("__ITERATION__", "$delta") and not call.args:
            self.typing.checks.append((call, INTEGER_DOMAINS, "the number of a round"))
            return
        if call.function.startswith("@") and functor is None:
            hint = did_you_mean(call.function, table.functors) or f".functor {call.function[1:]}(...)"
            self.typing.report_error("undefined", f"functor {call.function} is not declared", call.span, hint)
            return
        if call.function in table.functors and call.function not in table.functions:
            name = call.function.removeprefix("@")
            message = f"there is no function for functor {name}"
            hint = f'db.create_function("{name}", ...), or db.datalog(..., functors={{"{name}": ...}})'
            self.typing.report_error("undefined", message, call.span, hint)
        if functor is None:
            self.typing.pending.append(OverloadConstraint(call.function, call.args, node, call))
            return
        if not functor.min_args <= len(call.args) <= functor.max_args:
            takes = plural(functor.min_args, "argument")
            if functor.min_args < functor.max_args:
                few = len(call.args) < functor.min_args
                takes = f"at least {takes}" if few else f"at most {plural(functor.max_args, 'argument')}"
            message = f"functor {call.function} takes {takes}, {count_text(len(call.args))}"
            self.typing.report_error("functor", message, call.span)
            return
        self._expect_arguments(call, functor)
        if functor.result is not None:
            self.typing.kinds.assign(
                node, Reason(functor.result, f"the result of {call.function}", call.span)
            )
        elif functor.scheme is Scheme.SAME:
            self.typing.pending.append(SameKindConstraint(call, functor))

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


def _constant_kind(expression: ast.Expression) -> TypeKind | None:
    """Return the kind of a constant with a sign, a ``u`` suffix or a decimal point, or None."""
    is_negative = isinstance(expression, ast.Call) and expression.function == "neg"
    number = expression.args[0] if isinstance(expression, ast.Call) and is_negative else expression
    if isinstance(number, ast.Float):
        return FLOAT
    if isinstance(number, ast.Integer) and number.unsigned:
        return UNSIGNED
    return NUMBER if is_negative and isinstance(number, ast.Integer) else None
