"""A program that is there again when its database is opened: its tables have their rows already."""

from collections.abc import Callable, Iterable
from typing import Any

from kpg.compiler.datalog.check import check
from kpg.compiler.datalog.syntax.preprocessor import Setting
from kpg.datalog.dispatch import prepare_again
from kpg.datalog.program import Program
from kpg.datalog.texts import Reading, Text
from kpg.engine.engine import Engine
from kpg.runtime.errors import InterfaceError

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
