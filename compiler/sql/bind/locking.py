"""FOR UPDATE and its like lock rows of tables: a query has to show which rows it is made of."""

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Aggregates, Binding, Expansions, Scope, Windows

SETS = "UNION/INTERSECT/EXCEPT"


def check_locks(
    binding: Binding,
    scope: Scope,
    node: exp.Select,
    collected: tuple[Aggregates, Windows, Expansions],
) -> None:
    """Refuse a locking clause where rows of the query are not rows of tables, or of what is not in FROM."""
    locks = node.args["locks"]
    aggregates, windows, expansions = collected
    reasons = {
        SETS: isinstance(node.parent, exp.SetOperation),
        "DISTINCT clause": node.args.get("distinct") is not None,
        "GROUP BY clause": node.args.get("group") is not None,
        "HAVING clause": node.args.get("having") is not None,
        "aggregate functions": bool(aggregates.all_ids),
        "window functions": bool(windows.calls),
        "set-returning functions in the target list": bool(expansions.calls),
    }
    reason = next((words for words, holds in reasons.items() if holds), None)
    if reason is not None:
        binding.wrong(f"{words_of(locks[0])} is not allowed with {reason}", locks[0])
    nullable = _nullable(node)
    for lock in locks:
        named = lock.expressions or ()
        for table in named:
            if table.name.lower() not in scope.relations():
                message = f'relation "{table.name}" in {words_of(lock)} clause not found in FROM clause'
                binding.wrong(message, table)
        locked = {table.name.lower() for table in named} or scope.relations()
        if locked & nullable:
            message = f"{words_of(lock)} cannot be applied to the nullable side of an outer join"
            binding.wrong(message, lock, "name the relations to lock: OF name")


def words_of(lock: exp.Expr) -> str:
    """The clause as it was written."""
    strength = "UPDATE" if lock.args.get("update") else "SHARE"
    if lock.args.get("key"):
        strength = "NO KEY UPDATE" if strength == "UPDATE" else "KEY SHARE"
    return f"FOR {strength}"


def _nullable(node: exp.Select) -> set[str]:
    """The relations that an outer join may fill with NULLs, as far as joins are in one row."""
    source = node.args.get("from_")
    seen = {_name(source.this)} if source is not None else set[str]()
    found = set[str]()
    for join in node.args.get("joins") or ():
        side = str(join.args.get("side") or "").upper()
        if side in ("RIGHT", "FULL"):
            found |= seen
        if side in ("LEFT", "FULL"):
            found.add(_name(join.this))
        seen.add(_name(join.this))
    return found - {""}


def _name(item: exp.Expr) -> str:
    return str(item.alias_or_name).lower()
