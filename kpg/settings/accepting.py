"""VACUUM, DISCARD and their like: little to do here, and what Postgres refuses of them is refused."""

from kpg.compiler.catalog.access_control import key_of
from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.engine.transaction import State
from kpg.listeners.notices import say_skipped, warn
from kpg.runtime.errors import InterfaceError, ProgrammingError, Span


def accept(engine: Engine, statement: ast.Accepted | ast.LockTable) -> None:
    """Run one statement."""
    if isinstance(statement, ast.LockTable):
        from kpg.settings.table_locks import lock_tables

        lock_tables(engine, statement)
        return
    for fact, state in statement.skipped:
        say_skipped(engine, fact, state)
    what = statement.what
    transactions = engine.transactions
    inside = transactions.state is not State.NONE and not transactions.implicit
    if inside and (what == "VACUUM" or (what == "DISCARD" and statement.part == "ALL")):
        name = "DISCARD ALL" if what == "DISCARD" else what
        _refuse(f"{name} cannot run inside a transaction block", "25001")
    for relation in statement.relations:
        if what == "REINDEX" and statement.part != "TABLE":
            if statement.part == "INDEX":
                _check_index(engine, relation, statement)
            continue
        engine.catalog.get(relation, statement.span)
        if what == "REFRESH" and engine.catalog.is_limited:
            from kpg.security.permitted import refuse_refresh

            refuse_refresh(engine.catalog, relation, statement.span)
    if what in ("VACUUM", "ANALYZE", "ANALYSE"):
        _tidy(engine, statement)
    if what == "CHECKPOINT" and engine.keeper is not None:
        engine.refuse_in_transaction("CHECKPOINT")
        engine.keeper.checkpoint()
    if what == "DISCARD":
        _discard(engine, statement.part)


def _tidy(engine: Engine, statement: ast.Accepted) -> None:
    """VACUUM: rows and traces, of one database all, and its log; ANALYZE: statements are planned anew."""
    catalog = engine.catalog
    named = [catalog.get(relation, statement.span).name for relation in statement.relations]
    wanted = []
    for name in named or [entry.name for entry in catalog]:
        if not catalog.is_limited or catalog.rights.owns(catalog.asker.user, key_of(name)):
            wanted.append(name)
        elif named:
            warn(engine, f'permission denied to {statement.what.lower()} "{name}", skipping it')
    if statement.what != "VACUUM" or statement.part == "ANALYZE":
        catalog.version += 1  # the sizes of tables are known at any time: plans are not made for other ones
    if statement.what != "VACUUM":
        return
    if engine.executor.has_pending:
        _refuse("VACUUM cannot run inside a transaction block", "25001")
    engine.executor.vacuum(frozenset(wanted))
    if engine.keeper is not None and not named and not catalog.is_limited:
        engine.keeper.checkpoint()


def _refuse(message: str, state: str) -> None:
    error = InterfaceError(message)
    error.sqlstate = state
    raise error


def _check_index(engine: Engine, name: str, statement: ast.Accepted) -> None:
    """ProgrammingError if there is no index of a name."""
    from kpg.compiler.system.pg_index import indexes

    plain = name.rpartition(".")[2].lower()
    if not any(known.name.rpartition(".")[2].lower() == plain for known in indexes(engine.catalog)):
        raise ProgrammingError(f'relation "{name}" does not exist', span=statement.span)


def _discard(engine: Engine, part: str) -> None:
    """Forget what the session has, or a part of it."""
    from kpg.ddl.temporary import end
    from kpg.settings.settings import run_session
    from kpg.statements.cursors import forget
    from kpg.statements.statements import execute

    if part in ("ALL", "SEQUENCES") and "sequences" in vars(engine):
        engine.sequences.unask()
    if part in ("ALL", "TEMP"):
        end(engine)
    if part != "ALL":
        return
    forget(engine, engine.catalog.asker.number)
    engine.prepared.clear()
    place = Span("", 0, 0)
    for one in (ast.Set("", (), place), ast.SetRole("", True, False, place), ast.Listen("", False, place)):
        run_session(engine, one, execute)
