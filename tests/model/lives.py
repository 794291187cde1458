"""Databases that have several lives: closed, killed or without power in the middle, and opened again."""

import numpy as np

from kpg.api.database import Database
from tests.model.aside import write_aside
from tests.model.disk import Sim
from tests.model.durable import opened


class Lives:
    """A folder in memory, with the database that is open in it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.sim = Sim(seed)
        self.db = opened(self.sim)
        self.ended = 0

    def perhaps(self, chance: float = 0.4) -> Database:
        """The database: as it is, or, outside of transactions, in its next life."""
        idle = self.db._engine.transactions.is_idle and not self.db._engine.executor.tables.has_pending
        return self.again() if idle and self.random.random() < chance else self.db

    def again(self) -> Database:
        """The database in its next life. What was committed is there, however the last one ends."""
        if self.random.random() < 0.3:
            self.db.sql("checkpoint")
        end = self.random.random()
        if end < 0.4:
            self.db.close()
        elif end < 0.7:
            self.sim = self.sim.after_kill()
        else:
            self.sim = self.sim.after_cut(int(self.random.integers(2**31)))
        self.ended += 1
        self.db = opened(self.sim)
        write_aside(self.db, self.sim, self.random)
        return self.db
