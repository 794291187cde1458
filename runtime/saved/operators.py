"""Operators as data: of each class, what it keeps between steps.

What an operator keeps only to be faster, and makes again when it needs it (the indexes of windows, tables of
functions that were computed), is not captured; what belongs to a step in progress is empty between steps.
"""

from typing import Any, Final
from weakref import ref

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.step import Step
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import groups as group_kernels
from kpg.runtime.operators.apply import Apply
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.basic import BasicReduce
from kpg.runtime.operators.enterat import EnterAt
from kpg.runtime.operators.expand import Expand
from kpg.runtime.operators.fold import Fold
from kpg.runtime.operators.history import LoopDistinct, LoopReduce
from kpg.runtime.operators.join import Join
from kpg.runtime.operators.linear import Concat, Constant, Late, Linear, Negate
from kpg.runtime.operators.loop import Enter, Leave, Loop, Variable
from kpg.runtime.operators.rangejoin import RangeJoin
from kpg.runtime.operators.reduce import Distinct, Reduce, Single
from kpg.runtime.operators.source import Source
from kpg.runtime.operators.topk import TopK
from kpg.runtime.operators.userreduce import UserReduce
from kpg.runtime.operators.windows.operator import Window
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.saved.dormant import state_of
from kpg.runtime.saved.form import Read, State, UnsavedError
from kpg.runtime.saved.states import (
    capture_fold,
    capture_groups,
    capture_history,
    capture_record,
    restore_fold,
    restore_groups,
    restore_history,
    restore_record,
)
from kpg.runtime.saved.traces import capture_spine, restore_spine

STATELESS: Final = (
    Source, Constant, Linear, Late, Concat, Negate, Join, RangeJoin, Expand, Apply, Enter, EnterAt, Variable,
    Leave, TopK, BasicReduce, Window,
)  # fmt: skip
"""What keeps nothing: its output is computed of what its inputs hold."""


def capture_operator(operator: Operator) -> State:
    """What an operator keeps, None if nothing; between steps. UnsavedError if it is no data."""
    match operator:
        case Arrange():  # of which ArrangedLeave is a kind
            hold = operator.handle
            return {
                "spine": capture_spine(operator.spine),
                "logical": hold.logical.elements,
                "physical": hold.physical.elements,
                "bound": operator.bound,
            }
        case Reduce() | Distinct() | Single():
            return {"table": capture_groups(operator.table)}
        case LoopReduce() | LoopDistinct():
            return {"table": capture_history(operator.table), "bound": operator.bound}
        case UserReduce():
            return {"record": capture_record(operator.record)}
        case Fold():
            return {"groups": capture_fold(operator.groups)}
        case Loop():
            return {"body": captured(operator.body)}
        case _ if isinstance(operator, STATELESS):
            return None
        case _:
            raise UnsavedError(operator.place.description)


def captured(operators: tuple[Operator, ...]) -> State:
    """What operators of one scope keep, by what they compute; those that cannot be saved are left out."""
    found: dict[str, State] = {}
    for operator in operators:
        if isinstance(operator, STATELESS):
            continue
        try:
            found[operator.place.fingerprint] = capture_operator(operator)
        except UnsavedError:
            continue
    return found


def version_of_operator(operator: Operator) -> object:
    """What is equal as long as an operator keeps the same, between steps; None if that is not known.

    What traces do by themselves, merging and sealing, makes others of what they have, not of what it means.
    """
    match operator:
        case Arrange():
            spine = operator.spine
            asleep: Any = state_of(spine)
            if asleep is None:
                return ref(operator), spine.inserted_rows, spine.merged_rows, operator.bound
            return ref(operator), asleep["inserted"], asleep["merged"], operator.bound
        case Reduce() | Distinct() | Single():
            asleep = state_of(operator.table)
            state = operator.table.state if asleep is None else asleep["state"]
            return ref(operator), int(state[group_kernels.MARKER])
        case _:
            return None


def restore_operator(operator: Operator, state: Any, read: Read) -> None:
    """Have a new operator, whose inputs are restored, keep what it kept: arrays once they are needed."""
    match operator:
        case Arrange():
            operator.handle.restore(Antichain.known(state["logical"]), Antichain.known(state["physical"]))
            restore_spine(operator.spine, state["spine"], read)
            operator.bound = operator.committed_bound = state["bound"]
        case Reduce() | Distinct() | Single():
            restore_groups(operator.table, state["table"], read)
        case LoopReduce() | LoopDistinct():
            restore_history(operator.table, state["table"], read)
            operator.bound = state["bound"]
        case UserReduce():
            restore_record(operator.record, state["record"])
        case Fold():
            restore_fold(operator.groups, state["groups"])
        case Loop():
            scope, step = operator.within, operator.step
            scope.step = Step(step.lower, step.upper, rounds=(0,) * (scope.depth - 1))
            for inner in operator.body:
                if not isinstance(inner, STATELESS):
                    restore_operator(inner, state["body"][inner.place.fingerprint], read)
                inner.hydrated = True
        case _ if isinstance(operator, STATELESS):
            pass
        case _:
            raise InternalError(f"{operator.place.description} cannot be restored")
    operator.hydrated = True


def is_known(operator: Operator, states: Any) -> bool:
    """Whether ``states``, by what operators compute, have all that an operator keeps."""
    if isinstance(operator, STATELESS):
        return True
    state = states.get(operator.place.fingerprint)
    if state is None:
        return False
    return not isinstance(operator, Loop) or all(is_known(inner, state["body"]) for inner in operator.body)


def restore_known(operators: tuple[Operator, ...], states: Any, read: Read) -> tuple[Operator, ...]:
    """Restore of new operators, in dependency order, those that can be; the others, to be computed.

    An operator can be restored if all that it reads is there, or can be.
    """
    left = []
    for operator in operators:
        if all(source.hydrated for source in operator.inputs) and is_known(operator, states):
            restore_operator(operator, states.get(operator.place.fingerprint), read)
        else:
            left.append(operator)
    return tuple(left)
