"""Collections: differential dataflow's vocabulary, as a builder over the runtime's plans.

``dataflow`` holds inputs and outputs, ``collection`` the operators between them; ``term`` is the graph that
they build, ``assembly`` makes plans of it. What is installed is shared by what it computes, across
dataflows and with SQL.
"""

from kpg.collections.collection import Arranged, Collection, LoopScope, Variable, recursive
from kpg.collections.dataflow import Dataflow
from kpg.collections.expression import Expression, case, function, literal
from kpg.collections.inputs import Input
from kpg.collections.operators import Operator
from kpg.collections.outputs import Captured, Inspection, Probe
from kpg.collections.patterns import conjunction
from kpg.runtime.convert.callbacks import Batch

__all__ = [
    "Arranged",
    "Batch",
    "Captured",
    "Collection",
    "Dataflow",
    "Expression",
    "Input",
    "Inspection",
    "LoopScope",
    "Operator",
    "Probe",
    "Variable",
    "case",
    "conjunction",
    "function",
    "literal",
    "recursive",
]
