"""Datalog programs in a database: relations as tables and views, goals as rows of tables, updates.

``installing`` makes a checked program part of a database, ``program`` is its handle; ``query_form`` is the
dataflow of one way of asking, which the handles of ``goal`` share; ``dispatch`` finds out what a text is;
``proof`` says why a row holds.
"""

from kpg.datalog.goal import Answers, Goal
from kpg.datalog.program import Program
from kpg.datalog.proof import Absence, Proof

__all__ = ["Absence", "Answers", "Goal", "Program", "Proof"]
