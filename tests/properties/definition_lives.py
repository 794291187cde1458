"""Random lives of a database whose definitions change, killed at any operation of a file.

A life begins with the objects of ``definitions.START`` and runs random statements of
``definitions.STATEMENTS``, alone, in transactions and around savepoints, with checkpoints, closes and kills.
Before operations of files that are chosen at random the folder is copied as a kill, or a power cut, might
leave it. Each copy has to open with the catalog and the rows after the last acknowledged action, or after the
one under way. So has the copy of a kill while it is opened, and the folder when it is opened again.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kpg
from kpg.api.database import Database
from kpg.persistence.inspection import check_contents, find_file_damage
from kpg.runtime.storage.packs import read_manifest
from tests.model.disk import Sim
from tests.model.durable import opened
from tests.model.steady import steady
from tests.properties.definitions import START, STATEMENTS, differences, restorable_catalog, rows_of

Known = tuple[dict[Any, Any], ...]
"""The catalog's entries, the rows of system relations, and the rows of relations."""


def known(database: Database) -> Known:
    """All that has to be found again."""
    return *restorable_catalog(database), rows_of(database)


@dataclass
class DefinitionLife:
    """A history of definitions, and what was found in the folder meanwhile."""

    seed: int
    copies: float = 0.06
    """How often the folder is copied before an operation."""
    states: list[Known] = field(default_factory=list)
    found: list[tuple[Sim, int, int, str]] = field(default_factory=list)
    """Copies, the first and the last state that they may be of, and what was under way."""
    failed: int = 0
    refused: int = 0
    """As of other lives: here no operation fails."""

    @property
    def doubtful(self) -> list[Sim]:
        """As of other lives."""
        return []

    def run(self, actions: int) -> None:
        """Live, then look at what was found."""
        self.random = np.random.default_rng(self.seed)
        with steady(np.random.default_rng([self.seed, 1])):
            self._live(actions)
            self._check()

    def _live(self, actions: int) -> None:
        sim = Sim(self.seed)
        db = opened(sim)
        db.sql(START)
        if self.random.random() < 0.7:
            db.sql("checkpoint")
        self.states.append(known(db))
        sim.look = lambda what: self._look(sim, what)
        for _ in range(actions):
            chance = self.random.random()
            if chance < 0.06:
                db.sql("checkpoint")
            elif chance < 0.12:
                db.close()
                db = opened(sim)
                self._same(db, [self.states[-1]], "closed")
            elif chance < 0.2:
                sim.holder = None  # as after a kill
                db = opened(sim)
                self._same(db, [self.states[-1]], "killed")
            else:
                changes = self._act(db)
                look, sim.look = sim.look, None
                self.states.append(known(db))
                sim.look = look
                if not changes:
                    self._same(db, [self.states[-2]], "undone")
        sim.look = None
        last = len(self.states) - 1
        self.found.append((sim.after_kill(), last, last, "the end"))

    def _act(self, db: Database) -> bool:
        """Run a statement or a transaction; whether it is committed, and not refused or rolled back."""
        texts = [self._statement() for _ in range(int(self.random.integers(1, 4)))]
        kind = self.random.random()
        if kind < 0.4:
            script = [texts[0]]
        elif kind < 0.7:
            script = ["begin", *texts, "commit"]
        elif kind < 0.9:
            script = [
                "begin",
                *texts[:-1],
                "savepoint p",
                texts[-1],
                "rollback to p",
                self._statement(),
                "commit",
            ]
        else:
            script = ["begin", *texts, "rollback"]
        try:
            for text in script:
                db.sql(text)
        except kpg.Error:
            if not db._engine.transactions.is_idle:
                db.sql("rollback")
            return False
        return script[-1] != "rollback"

    def _statement(self) -> str:
        text = STATEMENTS[int(self.random.integers(len(STATEMENTS)))]
        return text.replace("new", f"new{int(self.random.integers(3))}") if "new." not in text else text

    def _look(self, sim: Sim, what: str) -> None:
        if self.random.random() < self.copies:
            killed = self.random.random() < 0.5
            copy = sim.after_kill() if killed else sim.after_cut(int(self.random.integers(2**31)))
            last = len(self.states) - 1
            self.found.append((copy, last, last + 1, f"{'a kill' if killed else 'a cut'} before {what}"))

    def _check(self) -> None:
        for sim, first, last, what in self.found:
            allowed = self.states[first : last + 1]
            manifest = read_manifest(sim)
            if manifest is not None:
                assert not (wrong := list(find_file_damage(sim, manifest))), (self.seed, what, wrong)
            again: list[Sim] = []
            sim.look = lambda _, sim=sim, again=again: self._kill_opening(sim, again)
            with opened(sim) as db:
                sim.look = None
                state = self._same(db, allowed, what)
                assert not (wrong := list(check_contents(db._engine))), (self.seed, what, wrong)
            for copy in (*again, sim):
                with opened(copy) as db:
                    self._same(db, [state] if copy is sim else allowed, f"{what}, opened again")

    def _kill_opening(self, sim: Sim, again: list[Sim]) -> None:
        if self.random.random() < 0.02:
            again.append(sim.after_kill())

    def _same(self, db: Database, allowed: list[Known], what: str) -> Known:
        """Which state it is that was found."""
        found = known(db)
        for state in allowed:
            if not differences(found, state):
                return state
        wrong = [differences(found, state) for state in allowed]
        raise AssertionError((self.seed, len(self.states), what, wrong))
