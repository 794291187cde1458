"""Datalog programs in a database.

Relations are tables and views, goals are queries, and updates change facts.

``dispatch`` classifies a text. ``installation`` turns a checked program into tables and views, and
``program`` is its handle. ``goal`` has the handles of goals. Goals with the same relation and bound
columns share one ``goal_plan`` and its ``goal_dataflow``. ``proof`` explains why a row holds.
"""

from kpg.datalog.goal import Answers, Goal
from kpg.datalog.program import Program
from kpg.datalog.proof import Absence, Proof

__all__ = ["Absence", "Answers", "Goal", "Program", "Proof"]
