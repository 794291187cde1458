"""Collections: the operators of differential dataflow, as a builder of runtime plans.

``dataflow`` has inputs and outputs, ``collection`` the operators between them. ``term`` has the
graph that they build and its translation into plans. Identical arrangements are installed once and
shared across dataflows and with SQL.
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
