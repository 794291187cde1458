"""Dispatch of Datalog texts: a program to install, or goals and updates for an installed program.

Goals and updates go to the program that defines their relations. ``reinstall`` installs a program
again when its database is opened; its tables already have their rows.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kpg.compiler.catalog.entries import RELATIONS, Catalog, did_you_mean
from kpg.compiler.datalog.check import CheckedProgram, check, include_reader
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.parser import parse
from kpg.compiler.datalog.preprocessor import File, Setting, blank_comments, preprocess
from kpg.compiler.datalog.syntax import ast
from kpg.datalog.facts import Words, encode_rows
from kpg.datalog.goal import Goal
from kpg.datalog.privileges import check_program
from kpg.datalog.program import IncludeReader, Program, ProgramText
from kpg.datalog.program_plans import table_schema
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError
from kpg.session.engine import Engine, importable

DEFAULT_LABEL: Final = "Datalog"
"""Label of the program without rules, which owns goals and updates on tables and views alone."""
log: Final = logging.getLogger("kpg")
NAME: Final = re.compile(r"[\w.?]+")
"""A name in a text of goals and updates."""


def programs(engine: Engine) -> Iterator[Program]:
    """Yield the installed programs, the latest first."""
    for client in reversed(engine.dataflows.values()):
        if isinstance(client, Program):
            yield client


def deriving_program(engine: Engine, name: str) -> Program | None:
    """Return the program that derives a relation, or None."""
    return next((program for program in programs(engine) if name in program.installation.views), None)


def declaring_program(engine: Engine, name: str) -> Program:
    """Return the program that declares a relation, as a table or a view.

    Raises ProgrammingError if there is none.
    """
    for program in programs(engine):
        if name in program.relations:
            return program
    if name in engine.catalog:
        hint = "a row of a Datalog relation can be explained"
        raise ProgrammingError(f'"{name}" is no relation of a Datalog program', hint=hint)
    declared = [relation for one in programs(engine) for relation in one.relations]
    raise ProgrammingError(f"no Datalog program has a relation {name}", hint=did_you_mean(name, declared))


def install(
    engine: Engine,
    check_database: Callable[[], None],
    text: str,
    *,
    filename: str | None = None,
    facts: str | None = None,
    setting: Setting | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    report_missing: Callable[[str], None] | None = None,
) -> Program:
    """Check a program and install it atomically.

    A text of goals and updates alone goes to an installed program instead, which is returned.

    Args:
      filename: the name of the text in messages.
      facts: the folder that ``.input`` reads from.
      setting: options of the preprocessor.
      functors: the Python functions of declared functors, by name.
      report_missing: called with a message for each fact file that does not exist. Without it, such a file
        is an error.

    Raises:
      DatalogError: with all diagnostics, if the program has an error. Nothing is installed.
    """
    if has_only_goals_and_updates(text, filename or "", engine.catalog):
        owner = program_for(engine, check_database, text)
        owner.run_checked(owner.check_text(text, filename))
        return owner
    engine.refuse_in_transaction("installing a Datalog program")
    read = IncludeReader()
    checked = check(text, engine.catalog, file=filename or "", read=read, setting=setting, functors=functors)
    check_program(engine.catalog, checked, None, loads=facts is not None)
    import_paths, dataflow_count = _functor_import_paths(engine, functors), engine.dataflows_made
    program = Program(engine, _next_label(engine, filename), checked, check_database)
    program.texts = (read.program_text(text, filename, setting, import_paths),)
    try:
        with engine.single_commit():
            _install(program, facts, report_missing)
    except BaseException:
        # A program that failed to install takes no number.
        engine.dataflows_made = dataflow_count
        program.drop()
        raise
    return program


def _install(program: Program, facts: str | None, report_missing: Callable[[str], None] | None) -> None:
    add_relations(program, encode_facts(program.engine, program.checked), facts, report_missing)
    try:
        program.run_updates(program.checked.program, {})
        program.prepare_declared_goals()
    except BaseException:
        program.drop()
        raise


def _functor_import_paths(
    engine: Engine, functors: Mapping[str, Callable[..., Any]] | None
) -> dict[str, str]:
    """Return the import path of each functor, as a durable database stores it.

    Raises NotSupportedError if a functor of a durable database cannot be imported.
    """
    if engine.write_ahead_log is None or not functors:
        return {}
    import_paths = {name: importable(function) or "" for name, function in functors.items()}
    for name, import_path in import_paths.items():
        if not import_path and name.lower() not in engine.supplied_functions:
            engine.refuse_if_durable(f"functor {name}", "it is in no module that could be imported")
    return import_paths


def install_text(
    engine: Engine,
    check_database: Callable[[], None],
    text: str,
    filename: str | None,
    facts: str | Path | None,
    include: Sequence[str | Path],
    macros: Mapping[str, str] | None,
    functors: Mapping[str, Callable[..., Any]] | None,
) -> Program:
    """Install a program, as :meth:`kpg.api.database.Database.datalog` does."""
    return install(
        engine,
        check_database,
        text,
        filename=filename,
        facts=None if facts is None else str(facts),
        setting=Setting(tuple(map(str, include)), tuple((macros or {}).items())),
        functors=functors,
    )


def add_relations(
    program: Program,
    rows: dict[str, Words],
    facts: str | None,
    report_missing: Callable[[str], None] | None = None,
) -> None:
    """Add the program's relations to the database, atomically."""
    program.installation.add(rows, facts, report_missing=report_missing)
    program.engine.dataflows[program.label] = program


def encode_facts(engine: Engine, checked: CheckedProgram) -> dict[str, Words]:
    """Return the facts in the program's text as words ``int64[w, n]``, by relation."""
    program, dictionary = checked.program, engine.executor.dictionary
    return {
        name: encode_rows(program.relations[name], rows, table_schema(program.relations[name]), dictionary)
        for name, rows in program.facts.items()
    }


def _next_label(engine: Engine, filename: str | None) -> str:
    engine.dataflows_made += 1
    return f"Datalog program {filename or engine.dataflows_made}" + (
        f" ({engine.dataflows_made})" if filename else ""
    )


def prepare(engine: Engine, check_database: Callable[[], None], text: str) -> Goal:
    """Return a goal of the program that declares its relations, or of tables and views alone.

    A durable database prepares the goal again when it is opened. The next call with the same text
    returns that goal.
    """
    prepared = engine.waiting_goals.pop(text, None)
    if prepared is not None:
        return prepared
    goal = program_for(engine, check_database, text).prepare(text)
    if engine.write_ahead_log is not None:
        _register_goal(engine, text, goal)
        engine.commit_definitions()
    return goal


def reprepare_goal(engine: Engine, check_database: Callable[[], None], text: str) -> None:
    """Prepare a goal that was prepared when the database was closed.

    It waits in ``engine.waiting_goals`` until a session prepares it. A goal that is not valid any more
    is logged and skipped.
    """
    try:
        goal = program_for(engine, check_database, text).prepare(text)
    except Error as error:  # one of its relations was dropped or replaced
        log.info("the goal %s is not there any more: %s", text, error.message)
        return
    _register_goal(engine, text, goal)
    engine.waiting_goals[text] = goal


def _register_goal(engine: Engine, text: str, goal: Goal) -> None:
    engine.goals[text] = engine.goals.get(text, 0) + 1

    def unregister_goal() -> None:
        engine.goals[text] -= 1
        if not engine.goals[text]:
            del engine.goals[text]
        if not engine.closed:
            engine.commit_definitions()

    goal.on_drop = unregister_goal


def update(engine: Engine, check_database: Callable[[], None], text: str, values: dict[str, Any]) -> int:
    """Run updates of tables or of one program's relations, and return the number of changed rows."""
    return program_for(engine, check_database, text).update(text, **values)


def program_for(engine: Engine, check_database: Callable[[], None], text: str) -> Program:
    """Return the program that goals and updates belong to.

    If they use only tables and views, this is a program without rules, labelled ``DEFAULT_LABEL``.
    """
    owner = most_mentioned_program(engine, text)
    if owner is not None:
        return owner
    # Goals and updates on tables and views alone need a program without rules.
    program = next((candidate for candidate in programs(engine) if candidate.label == DEFAULT_LABEL), None)
    if program is None:
        program = Program(engine, DEFAULT_LABEL, check("", engine.catalog), check_database)
        engine.dataflows[DEFAULT_LABEL] = program
    return program


def most_mentioned_program(engine: Engine, text: str) -> Program | None:
    """Return the program with the most relations that the text names, the latest of several.

    Relations of other programs are read as views, so the answer does not depend on the choice.
    """
    words = set(NAME.findall(text))
    counts = [(len(words & set(program.checked.program.relations)), program) for program in programs(engine)]
    highest = max((count for count, _ in counts), default=0)
    return next((program for count, program in counts if count == highest > 0), None)


def has_only_goals_and_updates(text: str, filename: str, catalog: Catalog) -> bool:
    """Return whether a text consists of at least one goal or update, and nothing else."""
    if not blank_comments(text)[0].lstrip().startswith(("?-", "+", "-")):
        return False
    diagnostics = Diagnostics()
    try:
        tree = parse(preprocess(File(filename, text), include_reader(catalog), diagnostics), diagnostics)
    except RecursionError:
        return False
    statements = tree.statements
    return bool(statements) and all(isinstance(statement, ast.Goal | ast.Update) for statement in statements)


StoredProgram = tuple[tuple[ProgramText, ...], str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""A program's texts, its mark, its tables, its views, and the materialized views among them."""


def stored_program(program: Program) -> StoredProgram:
    """Return the description of a program from which ``reinstall`` installs it again."""
    tables, materialized = program.installation.tables, program.installation.materialized
    views = tuple(name for name in program.installation.views if program.installation.has_view(name))
    return program.texts, program.checked.mark, tuple(tables), views, tuple(sorted(materialized))


def reinstall(engine: Engine, label: str, stored: StoredProgram, find: Callable[[str, str], Any]) -> Program:
    """Install a program again when its database is opened.

    ``find`` imports a functor, given its name and import path. Raises the errors of checking the
    program, for example if a relation that it reads is missing.
    """
    check_database = make_open_check(engine)
    texts, mark, tables, views, materialized = stored
    text, filename, folders, macros, files, import_paths = texts[0]
    catalog = engine.catalog.copy()
    catalog.apply(*(RELATIONS.remove(catalog.get(name).name.lower()) for name in tables))
    functors = {name: find(name, import_path) for name, import_path in import_paths}
    setting = Setting(folders, macros)
    read = IncludeReader(files)
    checked = check(text, catalog, file=filename, read=read, setting=setting, functors=functors, mark=mark)
    for extension, name, _, _, included, _ in texts[1:]:
        checked = check(extension, catalog, file=name, read=IncludeReader(included), base=checked)
    program = Program(engine, label, checked, check_database)
    program.texts = texts
    program.installation.restore_views(views, materialized)
    engine.dataflows[label] = program
    if len(texts) == 1:
        program.prepare_declared_goals()
    return program


def reprepare_goals(engine: Engine, texts: Iterable[str]) -> None:
    """Prepare the goals that were prepared when the database was closed."""
    for text in texts:
        reprepare_goal(engine, make_open_check(engine), text)


def make_open_check(engine: Engine) -> Callable[[], None]:
    """Return a function that raises InterfaceError if the engine is closed."""

    def check_open() -> None:
        if engine.closed:
            raise InterfaceError("the database is closed", hint="open another one with kpg.connect()")

    return check_open
