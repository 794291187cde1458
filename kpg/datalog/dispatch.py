"""Dispatch of Datalog texts: a program to install, or goals and updates for an installed program.

Goals and updates go to the program that defines their relations. ``restored`` reinstalls a program when its
database is opened; its tables already have their rows.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kpg.compiler.catalog.entries import Catalog, did_you_mean
from kpg.compiler.datalog.check import Checked, check, reader
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.parser import parse
from kpg.compiler.datalog.preprocessor import File, Setting, blank_comments, preprocess
from kpg.compiler.datalog.syntax import ast
from kpg.datalog.facts import Words, rows_of
from kpg.datalog.goal import Goal
from kpg.datalog.privileges import check_program
from kpg.datalog.program import Program, Reading, Text
from kpg.datalog.program_plans import table_schema
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError
from kpg.session.engine import Engine, importable

NOBODY: Final = "Datalog"
"""The program of the goals that are about no program's relations."""
log: Final = logging.getLogger("kpg")
WORD: Final = re.compile(r"[\w.?]+")


def programs(engine: Engine) -> Iterator[Program]:
    """The programs that are installed, the latest first."""
    for client in reversed(engine.dataflows.values()):
        if isinstance(client, Program):
            yield client


def program_of(engine: Engine, name: str) -> Program | None:
    """The program that derives a relation."""
    return next((one for one in programs(engine) if name in one.installed.views), None)


def program_with(engine: Engine, name: str) -> Program:
    """The program that has a relation, as a view or a table; ProgrammingError if none has."""
    for one in programs(engine):
        if name in one.relations:
            return one
    if name in engine.catalog:
        hint = "a row of a Datalog relation can be explained"
        raise ProgrammingError(f'"{name}" is no relation of a Datalog program', hint=hint)
    known = [relation for one in programs(engine) for relation in one.relations]
    raise ProgrammingError(f"no Datalog program has a relation {name}", hint=did_you_mean(name, known))


def install(
    engine: Engine,
    check_database: Callable[[], None],
    text: str,
    *,
    filename: str | None = None,
    facts: str | None = None,
    setting: Setting | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    missing: Callable[[str], None] | None = None,
) -> Program:
    """Check a text and make it part of the database: all of it, or nothing and DatalogError.

    ``filename`` names the text in messages; ``facts`` is the folder that ``.input`` reads from; ``setting``
    is for the preprocessor, ``functors`` are the functions of declared ones; ``missing`` is told of files
    that do not exist, which are an error without it.
    """
    if only_adds(text, filename or "", engine.catalog):
        owner = home(engine, check_database, text)
        owner.run_added(owner.with_program(text, filename))
        return owner
    engine.refuse_in_transaction("installing a Datalog program")
    read = Reading()
    checked = check(text, engine.catalog, file=filename or "", read=read, setting=setting, functors=functors)
    check_program(engine.catalog, checked, None, loads=facts is not None)
    places, made = _keepable(engine, functors), engine.dataflows_made
    program = Program(engine, _label(engine, filename), checked, check_database)
    program.texts = (read.text(text, filename, setting, places),)
    try:
        with engine.held():
            _install(program, facts, missing)
    except BaseException:
        # What never was has no number: the next one is called as it would have been.
        engine.dataflows_made = made
        program.drop()
        raise
    return program


def _install(program: Program, facts: str | None, missing: Callable[[str], None] | None) -> None:
    add(program, facts_of(program.engine, program.checked), facts, missing)
    try:
        program.run_updates(program.checked.program, {})
        program.get_ready()
    except BaseException:
        program.drop()
        raise


def _keepable(engine: Engine, functors: Mapping[str, Callable[..., Any]] | None) -> dict[str, str]:
    """Where functors are imported from; NotSupportedError if a folder cannot have one."""
    if engine.keeper is None or not functors:
        return {}
    places = {name: importable(function) or "" for name, function in functors.items()}
    for name, place in places.items():
        if not place and name.lower() not in engine.given_anew:
            engine.refuse_to_keep(f"functor {name}", "it is in no module that could be imported")
    return places


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
    """As :meth:`kpg.api.database.Database.datalog`."""
    return install(
        engine,
        check_database,
        text,
        filename=filename,
        facts=None if facts is None else str(facts),
        setting=Setting(tuple(map(str, include)), tuple((macros or {}).items())),
        functors=functors,
    )


def add(
    program: Program,
    rows: dict[str, Words],
    facts: str | None,
    missing: Callable[[str], None] | None = None,
) -> None:
    """Add the program's relations to the database, or nothing."""
    program.installed.add(rows, facts, missing=missing)
    program.engine.dataflows[program.label] = program


def facts_of(engine: Engine, checked: Checked) -> dict[str, Words]:
    """The words of the text's facts."""
    program, dictionary = checked.program, engine.executor.dictionary
    return {
        name: rows_of(program.relations[name], rows, table_schema(program.relations[name]), dictionary)
        for name, rows in program.facts.items()
    }


def _label(engine: Engine, filename: str | None) -> str:
    engine.dataflows_made += 1
    return f"Datalog program {filename or engine.dataflows_made}" + (
        f" ({engine.dataflows_made})" if filename else ""
    )


def prepare(engine: Engine, check_database: Callable[[], None], text: str) -> Goal:
    """A goal about whichever program has its relations, or about tables and views alone.

    In a folder it is there again when that is opened, for who prepares it then.
    """
    waiting = engine.waiting_goals.pop(text, None)
    if waiting is not None:
        return waiting
    goal = home(engine, check_database, text).prepare(text)
    if engine.keeper is not None:
        _keep(engine, text, goal)
        engine.keep()
    return goal


def prepare_again(engine: Engine, check_database: Callable[[], None], text: str) -> None:
    """Have a goal be there that was when the database was closed, until somebody prepares it."""
    try:
        goal = home(engine, check_database, text).prepare(text)
    except Error as error:  # a relation of it is gone, or is another
        log.info("the goal %s is not there any more: %s", text, error.message)
        return
    _keep(engine, text, goal)
    engine.waiting_goals[text] = goal


def _keep(engine: Engine, text: str, goal: Goal) -> None:
    engine.goals[text] = engine.goals.get(text, 0) + 1

    def dropped() -> None:
        engine.goals[text] -= 1
        if not engine.goals[text]:
            del engine.goals[text]
        if not engine.closed:
            engine.keep()

    goal.when_dropped = dropped


def update(engine: Engine, check_database: Callable[[], None], text: str, values: dict[str, Any]) -> int:
    """Run updates of the relations of one program, or of tables."""
    return home(engine, check_database, text).update(text, **values)


def home(engine: Engine, check_database: Callable[[], None], text: str) -> Program:
    """The program that goals and updates are about, or one for those about nothing but tables and views."""
    owner = owner_of(engine, text)
    if owner is not None:
        return owner
    # Goals and updates about nothing but the database's own relations need a program without rules.
    found = next((one for one in programs(engine) if one.label == NOBODY), None)
    if found is None:
        found = Program(engine, NOBODY, check("", engine.catalog), check_database)
        engine.dataflows[NOBODY] = found
    return found


def owner_of(engine: Engine, text: str) -> Program | None:
    """The program most of whose relations the text names, the latest of several.

    The others' relations are read as views, so the answer does not depend on the choice.
    """
    words = set(WORD.findall(text))
    counts = [(len(words & set(one.checked.program.relations)), one) for one in programs(engine)]
    most = max((count for count, _ in counts), default=0)
    return next((one for count, one in counts if count == most > 0), None)


def only_adds(text: str, filename: str, catalog: Catalog) -> bool:
    """Whether a text has goals and updates only, at least one."""
    if not blank_comments(text)[0].lstrip().startswith(("?-", "+", "-")):
        return False
    diagnostics = Diagnostics()
    try:
        tree = parse(preprocess(File(filename, text), reader(catalog), diagnostics), diagnostics)
    except RecursionError:
        return False
    found = tree.statements
    return bool(found) and all(isinstance(one, ast.Goal | ast.Update) for one in found)


Told = tuple[tuple[Text, ...], str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""A program's texts, its mark, its tables, its views, and those of them that are maintained."""


def told(program: Program) -> Told:
    """What a program can be made of again."""
    tables, kept = program.installed.tables, program.installed.kept
    views = tuple(name for name in program.installed.views if program.installed.is_there(name))
    return program.texts, program.checked.mark, tuple(tables), views, tuple(sorted(kept))


def restored(engine: Engine, label: str, told: Told, find: Callable[[str, str], Any]) -> Program:
    """Have a program be there; ``find`` imports functors.

    Raises what checking its text raises, if a relation is missing that it reads.
    """
    open_still = still_open(engine)
    texts, mark, tables, views, kept = told
    text, filename, folders, macros, files, places = texts[0]
    catalog = engine.catalog.copy()
    for name in tables:
        catalog.remove(name)
    functors = {name: find(name, place) for name, place in places}
    setting = Setting(folders, macros)
    read = Reading(files)
    checked = check(text, catalog, file=filename, read=read, setting=setting, functors=functors, mark=mark)
    for more, name, _, _, included, _ in texts[1:]:
        checked = check(more, catalog, file=name, read=Reading(included), after=checked)
    program = Program(engine, label, checked, open_still)
    program.texts = texts
    program.installed.adopt(views, kept)
    engine.dataflows[label] = program
    if len(texts) == 1:
        program.get_ready()
    return program


def goals_again(engine: Engine, texts: Iterable[str]) -> None:
    """Have the goals be there that were when the database was closed."""
    for text in texts:
        prepare_again(engine, still_open(engine), text)


def still_open(engine: Engine) -> Callable[[], None]:
    """What raises InterfaceError once an engine is closed."""

    def check_open() -> None:
        if engine.closed:
            raise InterfaceError("the database is closed", hint="open another one with kpg.connect()")

    return check_open
