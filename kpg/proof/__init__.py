"""Why a row is there, as a tree, or is not: data that Datalog and SQL share, and how they are shown."""

from kpg.proof.absence import Absence, Failure
from kpg.proof.tree import Kind, Proof, RuleText

__all__ = ["Absence", "Failure", "Kind", "Proof", "RuleText"]
