"""The kind of every expression of a flat rule, by unification; and which overload each call means."""

from typing import assert_never

from kpg.compiler.catalog import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, given, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import FlatRule
from kpg.compiler.datalog.syntax.walk import FlatLiteral, atom_of, literals
from kpg.compiler.datalog.typing.aggregates import (
    Result,
    head_aggregate,
    operand_domains,
    result_of,
    takes_value,
)
from kpg.compiler.datalog.typing.constraints import (
    Casted,
    Compared,
    Registered,
    Same,
    Stored,
    Structured,
    Typing,
)
from kpg.compiler.datalog.typing.functors import CONSTRAINTS, NUMERIC, WHOLE, Functor, Scheme, functor_named
from kpg.compiler.datalog.typing.kinds import Reason
from kpg.compiler.datalog.typing.relations import RelationInfo
from kpg.compiler.datalog.typing.solve import LITERALS, is_number_of, solve
from kpg.compiler.datalog.typing.types import CONDITION, FLOAT, NUMBER, SYMBOL, UNSIGNED, TypeKind, TypeTable
from kpg.compiler.rules.core import Domain
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


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
