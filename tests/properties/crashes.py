"""Random lives of durable databases whose power goes: what is found again is what was acknowledged.

A history runs on a database in a ``Sim`` and, beside it, on one in memory. Before operations of files that
are chosen at random the folder is copied as a power cut might leave it, and opened: it has to be the state
after the last acknowledged action, or after the one that was under way. The power may go again while it is
opened. Operations fail, too: then the action never was. Backups are copied meanwhile, checkpoints written,
and the folder is read by others; what was there at earlier epochs is what it was. Threads take turns, and
nothing is left to the clock: a seed is a life.

``python -m tests.properties.crashes --seed 1 --minutes 60`` goes on for an hour, prints seeds that fail, and
ends with status 1 if there are any. Every fourth seed is a life of definitions (``definition_lives.py``).
"""

import argparse
import errno
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

import kpg
from kpg.api.database import Database
from kpg.execute.definitions import ddl
from kpg.persistence.backup import FileCopier, _files_to_copy
from kpg.persistence.inspection import check_contents, find_file_damage
from kpg.runtime.storage.packs import read_manifest
from tests.model.aside import Child, write_aside
from tests.model.disk import Sim
from tests.model.durable import State, check_past, comparable, contents, difference, opened, share_numbers
from tests.model.steady import steady
from tests.model.turns import Killed, Turn
from tests.properties.crash_actions import Action, Side, action, sql
from tests.properties.crash_themes import Theme, themes
from tests.properties.definition_lives import DefinitionLife

START = (
    "create table t (k int primary key, g int not null, v int check (v < 1000))",
    "create table u (k serial primary key, name text)",
    "create sequence s",
    "create function doubled(x int) returns int language sql return x * 2",
)


@dataclass
class Found:
    """A folder as it was found, which of the states it may be of, and the epochs known then."""

    least: int
    most: int
    what: str
    sim: Sim
    epochs: dict[int, int]


@dataclass
class Copy:
    """A backup under way: of which state, where to, what cuts have left there, and who makes it."""

    index: int
    target: Sim
    cuts: list[Sim]
    work: Turn


@dataclass
class Life:
    """A history under way: the folder, what was acknowledged, and what was found after cuts."""

    seed: int
    views: bool
    mode: str = "full"
    failing: float = 0.0
    cuts: int = 10
    history: int | None = None
    themes: bool = False
    found: list[Found] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    failed: int = 0
    refused: int = 0
    doubtful: list[Sim] = field(default_factory=list)
    """Folders as they were while an action failed, which may be there or not."""
    doubt: int = 0
    """How many of the last states nobody knows to have been acknowledged."""
    epochs: dict[int, int] = field(default_factory=dict)
    """The state after an epoch."""
    copies: list[Copy] = field(default_factory=list)
    """Backups under way."""
    chosen: list[Theme] = field(default_factory=list)
    left: list[Child] = field(default_factory=list)
    """Processes that were to write checkpoints for others that are gone."""

    def run(self, actions: int) -> None:
        self.random = np.random.default_rng(self.seed)
        with steady(np.random.default_rng([self.seed, 1])) as self.turns:
            self._live(actions)

    def _live(self, actions: int) -> None:
        random = self.random
        sim, beside = Sim(self.seed), Side(kpg.connect())
        sim.turns = self.turns
        sim.look = lambda what: self._look(sim, what, random)
        here = Side(self._opened(sim))
        chosen = self.chosen = themes(random) if self.themes else []
        steps: list[Action] = [
            sql(one) for one in (*START, *(one for theme in chosen for one in theme.start))
        ]
        for _ in range(actions):
            theme = chosen[int(random.integers(len(chosen)))] if chosen and random.random() < 0.6 else None
            steps.append(action(random, self.views) if theme is None else theme.draw(random))
        self.states.append(contents(beside.db))
        known = True
        for step in steps:
            if random.random() < 0.06:
                here = self._again(sim, here, beside)
            if not self._both(step, sim, here, beside):
                self.doubt = 1
                self._kill(sim, here)
                here = Side(self._opened(sim))
                _end_session(beside)
                found = comparable(contents(here.db))
                known = found == comparable(self.states[-1])
                if not known:
                    break
                share_numbers(here.db, beside.db)
                self.doubt = 0
            self._others(sim, here)
        sim.fails = lambda count, what: 0
        if not known:
            # The commit that was refused is not there, and never will be.
            wrong = difference(found, comparable(self.states[-2]))
            assert not wrong, (self.seed, len(self.states), "refused", wrong)
        self._found_now(sim.after_kill(), "the end")
        for copy in self.copies:
            self._copied(copy)
        self._kill(sim, here)
        sim.turns = None
        self._check()

    def _kill(self, sim: Sim, here: Side) -> None:
        """The process is gone, with its threads; a child that was stopped may go on later."""
        self.turns.kill()
        sim.holder = None
        keeper: Any = here.db._engine.write_ahead_log
        child = keeper.checkpoints._background._process
        if child is not None and self.random.random() < 0.5:
            self.left.append(child)

    def _opened(self, sim: Sim) -> Database:
        database = opened(sim, self.mode, history=self.history)
        write_aside(database, sim, self.random)
        return database

    def _again(self, sim: Sim, here: Side, beside: Side) -> Side:
        """Close and open, or open what a kill leaves; operations may fail meanwhile."""
        if self.failing:
            sim.fails = self._fails(sim)
        if self.random.random() < 0.5:
            _outcome(lambda side: side.db.close(), here)
        else:
            self._kill(sim, here)
        sim.holder = None
        for _ in range(3):
            try:
                database = self._opened(sim)
                break
            except kpg.OperationalError:
                assert sim.holder is None
        else:
            sim.fails = lambda count, what: 0
            database = self._opened(sim)
        sim.fails = lambda count, what: 0
        # Numbers that failed statements took are given again.
        share_numbers(database, beside.db)
        _end_session(beside)
        return Side(database)

    def _both(self, step: Action, sim: Sim, here: Side, beside: Side) -> bool:
        """Take a step in both databases; whether the one in the folder takes any more."""
        if self.failing:
            sim.fails = self._fails(sim)
        before = len(self.found)
        error = _outcome(step, here)
        sim.fails = lambda count, what: 0
        if isinstance(error, kpg.OperationalError):
            self.failed += 1
            keeper: Any = here.db._engine.write_ahead_log
            if keeper.refuses is None:
                self.doubtful += [one.sim for one in self.found[before:]]
                del self.found[before:]
                found = difference(comparable(contents(here.db)), comparable(self.states[-1]))
                assert not found, (self.seed, len(self.states), str(error), found)
                # As after any statement that fails, numbers of sequences are gone.
                share_numbers(here.db, beside.db)
                return True
            self.refused += 1
            _outcome(step, beside)
            self.states.append(contents(beside.db))
            self.doubt = 1
            last = len(self.states) - 2
            self.found.append(
                Found(last if self.mode == "full" else 0, last + 1, "refusing", sim.after_cut(self.seed), {})
            )
            found = difference(comparable(contents(here.db)), comparable(self.states[-2]))
            assert not found, (self.seed, len(self.states), str(error), found)
            return False
        expected = _outcome(step, beside)
        assert str(error) == str(expected), (self.seed, len(self.states), error, expected)
        self.states.append(contents(beside.db))
        self.epochs[here.db.epoch] = len(self.states) - 1
        return True

    def _others(self, sim: Sim, here: Side) -> None:
        """What others do with the folder: they read it, and begin or finish a copy."""
        chance = self.random.random()
        for child in self.left:
            child.go_on()
        if chance < 0.03:
            with opened(sim, read_only=True) as reader:
                self._same(comparable(contents(reader)), [self.states[-1]], "a reader")
        elif chance < 0.06:
            self._copy(sim, here)
        elif chance < 0.12 and self.copies:
            self._copied(self.copies.pop())

    def _copy(self, sim: Sim, here: Side) -> None:
        """Begin a backup, by a thread; the power may go meanwhile, or an operation fail."""
        keeper: Any = here.db._engine.write_ahead_log
        target, cuts = Sim(self.seed), list[Sim]()

        def look(what: str) -> None:
            if self.random.random() < 0.05:
                cuts.append(target.after_cut(int(self.random.integers(2**31))))

        target.look = look
        if self.failing and self.random.random() < 0.5:
            target.fails = self._fails(target)
        copying = FileCopier(sim, _files_to_copy(keeper), target)
        target.turns = self.turns
        self.copies.append(Copy(len(self.states) - 1, target, cuts, self.turns.ahead(copying.run)))

    def _copied(self, copy: Copy) -> None:
        """A backup is the database as it was, or, if the power went, no database yet."""
        target, error = copy.target, copy.work.wait()
        target.turns = target.look = None
        target.fails = lambda count, what: 0
        if error is None:
            copy.cuts.append(target.after_cut(self.seed))
        elif isinstance(error, OSError):
            # Nothing is left of it, unless that fails, too: then it is a database.
            copy.cuts.append(target.after_kill())
        elif not isinstance(error, Killed):
            raise error
        for sim in copy.cuts:
            if "manifest" in sim.names:
                with opened(sim) as db:
                    self._same(comparable(contents(db)), [self.states[copy.index]], "a backup")

    def _same(self, found: State, allowed: list[State], what: str) -> int:
        """Which of the states it is that was found."""
        for place, state in enumerate(allowed):
            if found == comparable(state):
                return place
        differences = [difference(found, comparable(one)) for one in allowed[-2:]]
        raise AssertionError((self.seed, len(self.states), what, differences))

    def _fails(self, sim: Sim) -> Callable[[int, str], int]:
        def fails(count: int, what: str) -> int:
            if sim.random.random() < self.failing:
                return int(sim.random.choice([errno.EIO, errno.ENOSPC]))
            return 0

        return fails

    def _look(self, sim: Sim, what: str, random: Generator) -> None:
        if len(self.states) > 1 and random.random() < self.cuts / 150:
            self._found(sim.after_cut(int(random.integers(2**31))), what)

    def _found(self, sim: Sim, what: str) -> None:
        least = len(self.states) - 1 - self.doubt
        self.found.append(Found(least if self.mode == "full" else 0, least + 1, what, sim, dict(self.epochs)))

    def _found_now(self, sim: Sim, what: str) -> None:
        """What is found when nothing was under way, and only the process is gone."""
        last = len(self.states) - 1 - self.doubt
        self.found.append(Found(last, last, what, sim, dict(self.epochs)))

    # What is found

    def _check(self) -> None:
        for sim in self.doubtful:
            with opened(sim) as db:
                contents(db)
        for one in self.found:
            allowed = self.states[one.least : one.most + 1]
            cuts: list[Sim] = []
            if manifest := read_manifest(one.sim):
                assert not (wrong := list(find_file_damage(one.sim, manifest))), (self.seed, one.what, wrong)
            one.sim.look = lambda what, sim=one.sim, cuts=cuts: self._cut_again(sim, cuts)
            with opened(one.sim, history=self.history) as db:
                one.sim.look = None
                if self.random.random() < 0.3:
                    cuts.append(one.sim.after_cut(self.seed))
                index = one.least + self._same(comparable(contents(db)), allowed, one.what)
                assert not (wrong := list(check_contents(db._engine))), (self.seed, one.what, wrong)
                if self.history is not None:
                    self._check_past(db, one, index)
                self._go_on(db)
            for sim in cuts:
                with opened(sim) as db:
                    self._same(comparable(contents(db)), allowed, f"{one.what}, and a cut when it was opened")

    def _cut_again(self, sim: Sim, cuts: list[Sim]) -> None:
        if self.random.random() < 0.01:
            cuts.append(sim.after_cut(int(self.random.integers(2**31))))

    def _check_past(self, db: Database, one: Found, index: int) -> None:
        """What was there is what is said to have been there, as far as it is kept."""
        known = [(epoch, at) for epoch, at in one.epochs.items() if epoch <= db.epoch and at <= index]
        for place in self.random.permutation(len(known))[:4]:
            epoch, at = known[place]
            check_past(db, epoch, self.states[at : index + 1], self.seed)

    def _go_on(self, db: Database) -> None:
        """A table's next number is one that no row has had, and views follow what comes."""
        chance = self.random.random()
        if chance < 0.2 and "u" in db.names():
            db.sql("insert into u (name) values ('it goes on')")
        elif chance < 0.5 and self.chosen:
            side = Side(db)
            for _ in range(4):
                _outcome(self.chosen[int(self.random.integers(len(self.chosen)))].draw(self.random), side)
            contents(db)


def _outcome(step: Action, side: Side) -> Exception | None:
    try:
        step(side)
    except kpg.Error as error:
        return error
    return None


def _end_session(side: Side) -> None:
    """What a new opening does not have."""
    side.branch = None
    ddl.drop_temporary(side.db._engine)


def life(seed: int, cuts: int = 10) -> Life:
    """A life of any kind."""
    return Life(
        seed,
        views=seed % 3 == 0,
        mode=("full", "full", "normal", "off")[seed % 4],
        failing=(0.0, 0.1)[seed % 2],
        history=(None, None, None, 1000, 6)[seed % 5],
        cuts=cuts,
        themes=seed % 13 > 2,
    )


STRAIGHT = {"MIN_GROUPED_ROWS": 4, "MIN_PACK_BYTES": 512, "MIN_STRING_PACK_BYTES": 256}
"""With so little, rows and strings go straight into packs."""


LARGE = {"SMALL": 256, "PAGE": 512}
"""With so little, records are large and pages small."""


def main() -> None:
    """Go on for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1)
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names are in an order of their own each time
        os.execve(
            sys.executable,
            [sys.executable, "-m", __spec__.name, *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    end, seed, cuts, failed, errors, refused_ = time.monotonic() + 60 * given.minutes, given.seed, 0, [], 0, 0
    while time.monotonic() < end:
        one = DefinitionLife(seed) if seed % 4 == 3 else life(seed)
        small = patch("kpg.runtime.tables.row_groups.GROUP_BYTES", 1536 if seed % 7 < 3 else 1 << 20)
        many = 2 if seed % 11 < 3 else 8192
        ahead, packed = (
            patch("kpg.persistence.write_ahead_log.MANY", many),
            patch("kpg.runtime.worker.base_tables.MANY", many),
        )
        straight = patch.multiple(
            "kpg.persistence.write_ahead_log", **(STRAIGHT if seed % 5 == 2 else {"MIN_GROUPED_ROWS": 64})
        )
        large = patch.multiple("kpg.runtime.storage.log", **(LARGE if seed % 3 == 1 else {"SMALL": 1 << 16}))
        try:
            with small, ahead, packed, straight, large:
                one.run(25 if seed % 4 == 3 else 40)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
            traceback.print_tb(error.__traceback__, -5)
        gc.collect()  # databases whose power went are never closed, and a few objects hold much memory
        cuts += len(one.found) + len(one.doubtful)
        errors, refused_ = errors + one.failed, refused_ + one.refused
        seed += 1
        lives = seed - given.seed
        if lives % 20 == 0 or time.monotonic() >= end:
            told = f"{errors} commits refused, {refused_} databases that took no more"
            print(f"{lives} lives, {cuts} cuts, {told}", flush=True)
    print(f"seeds that fail: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
