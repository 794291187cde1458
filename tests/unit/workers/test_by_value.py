"""Functions that no module has, on their way to other processes."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from kpg.runtime.cluster import messages

FACTOR = 3


def again(given: Any) -> Any:
    """What has been sent and came, in this process."""
    return pickle.loads(messages.dumps(given, lambda buffer: True))


def tripled(value: int) -> int:
    return FACTOR * value


def test_functions_of_modules_go_by_name() -> None:
    assert again(tripled) is tripled
    assert again(math.sqrt) is math.sqrt


def test_others_go_with_what_they_refer_to() -> None:
    more = [5]

    def outer(value: int, *, times: int = 2) -> int:
        def even(n: int) -> bool:
            return n == 0 or odd(n - 1)

        def odd(n: int) -> bool:
            return n != 0 and even(n - 1)

        return times * tripled(value) + more[0] + int(even(value)) + math.floor(1.5)

    found = again(outer)
    assert found is not outer
    assert (found(4), found(4, times=1), found(5)) == (31, 19, 36)
    more[0] = 100
    assert (outer(5), found(5)) == (131, 36)
    assert again(outer) is found
    assert (found.__qualname__, found.__module__) == (outer.__qualname__, __name__)


def test_a_function_that_refers_to_itself() -> None:
    def power(n: int) -> int:
        return 1 if n == 0 else 2 * power(n - 1)

    assert again(power)(10) == 1024
    spare: Callable[[], int]

    def waits() -> int:
        return spare()

    found = again(waits)
    with pytest.raises(NameError, match="spare"):
        found()
    spare = lambda: 7  # noqa: E731
    assert waits() == 7


def test_what_only_this_process_has_is_not_sent() -> None:
    class Local:
        """In no module."""

    with pytest.raises((AttributeError, pickle.PicklingError)):
        again(lambda: Local())
    Local.__module__ = "__main__"
    with pytest.raises(pickle.PicklingError, match="is in no module"):
        again(lambda: Local)
