"""Datalog programs in a database: relations are tables and views, goals are queries, updates change facts.

``dispatch`` classifies a text. ``installation`` turns a checked program into tables and views, and
``program`` is its handle. ``goal`` holds the handles of goals, which share one ``goal_plan`` per query form
and its ``goal_dataflow``. ``proof`` explains why a row holds.
"""

from kpg.datalog.goal import Answers, Goal
from kpg.datalog.program import Program
from kpg.datalog.proof import Absence, Proof

__all__ = ["Absence", "Answers", "Goal", "Program", "Proof"]
