"""Settles what waits for kinds to be known: overloads, comparisons, records."""

from collections.abc import Callable
from typing import assert_never

from kpg.compiler.catalog import did_you_mean
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.typing.constraints import (
    Casted,
    Compared,
    Pending,
    Registered,
    Same,
    Stored,
    Structured,
    Typing,
    describe,
)
from kpg.compiler.datalog.typing.functors import EXTREMES, FUNCTORS, SQL_NAMES, WHOLE
from kpg.compiler.datalog.typing.kinds import Reason
from kpg.compiler.datalog.typing.types import NUMBER, TypeKind, kind_of_stored
from kpg.compiler.rules.core import Domain
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.functions import functions, resolve
from kpg.runtime.records import dataclass
from kpg.runtime.types import UNKNOWN, Type

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
