"""``*`` with columns left out, replaced or renamed: EXCLUDE, REPLACE and RENAME."""

from collections.abc import Callable

from sqlglot import exp

from kpg.compiler.catalog import did_you_mean
from kpg.compiler.sql.bind.scope import Binding, Field
from kpg.runtime.scalar import Scalar


def shown(
    binding: Binding, star: exp.Expr, fields: list[Field], bind: Callable[[exp.Expr], Scalar]
) -> list[tuple[str, Scalar]]:
    """The columns that a star stands for, with their names."""
    excluded = _named(binding, star.args.get("except_"), fields)
    renamed = {one.this.name.lower(): one.alias for one in star.args.get("rename") or []}
    replaced = {one.alias.lower(): one.this for one in star.args.get("replace") or []}
    for name, node in (*renamed.items(), *replaced.items()):
        _check(binding, name, fields, star if isinstance(node, str) else node)
    found: list[tuple[str, Scalar]] = []
    for known in fields:
        name = known.name.lower()
        if name in excluded:
            continue
        value = bind(replaced[name]) if name in replaced else known.column
        found.append((renamed.get(name, known.name), value))
    if not found:
        binding.wrong("EXCLUDE leaves no columns", star)
    return found


def _named(binding: Binding, parts: list[exp.Expr] | None, fields: list[Field]) -> set[str]:
    for part in parts or []:
        _check(binding, part.name, fields, part)
    return {part.name.lower() for part in parts or []}


def _check(binding: Binding, name: str, fields: list[Field], node: exp.Expr) -> None:
    if name.lower() not in (known.name.lower() for known in fields):
        hint = did_you_mean(name, (known.name for known in fields))
        binding.wrong(f'column "{name}" does not exist', node, hint)
