"""The slots that links fill in are those in which kernels take their arguments."""

import inspect
import runpy
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from kpg.runtime.chain import chain_selection
from kpg.runtime.kernels import arguments, links
from kpg.runtime.native.signature import parse

PREFIXES = {
    "vm.run": "RUN",
    "meet.match_few": "MEET",
    "sort.consolidate": "CONSOLIDATE",
    "sort.consolidate_few": "CONSOLIDATE",
    "head.append": "APPEND",
    "tail.insert": "INSERT",
    "groups.refresh": "REFRESH",
    "collect.heads": "HEADS",
    "collect.differences": "DIFFERENCES",
    "collect.later_rounds": "LATER",
    "ranges.follow": "FOLLOW",
    "history.accumulate": "ACCUMULATE",
    "thresholds.evaluate": "EVALUATE",
}
UPDATES = (
    "meet.match_few",
    "sort.consolidate",
    "sort.consolidate_few",
    "head.append",
    "tail.insert",
    "history.accumulate",
)
"""Kernels whose first three arguments are data, times and diffs."""


@cache
def declared(file: str) -> dict[str, Any]:
    """What a kernel file declares: a kernel that was called has compiled code in its place in the module."""
    spec = find_spec(f"kpg.runtime.kernels.{file}")
    assert spec is not None and spec.origin is not None
    return runpy.run_path(spec.origin)


def first_slots(name: str) -> tuple[dict[str, int], int]:
    """Each argument's first slot, by its name, and how many slots all take."""
    file, _, function = name.partition(".")
    kernel = declared(file)[function]
    names = list(inspect.signature(kernel.function).parameters)
    slots, at = {}, 0
    for argument, code in zip(names, parse(kernel.signature).codes, strict=True):
        slots[argument] = at
        at += 1 + int(code[2]) if len(code) > 1 else 1
    return slots, at


def named(prefix: str) -> dict[str, int]:
    """The constants of a kernel."""
    return {
        name.removeprefix(f"{prefix}_").lower(): value
        for name, value in vars(arguments).items()
        if name.startswith(f"{prefix}_")
    }


@pytest.mark.parametrize("name", PREFIXES)
def test_arguments_begin_where_constants_say(name: str) -> None:
    slots, count = first_slots(name)
    constants = named(PREFIXES[name])
    if name in UPDATES:
        begun = dict(zip(list(slots)[:3], named("UPDATES").values(), strict=True))
        constants = {**begun, **constants}
    assert slots == constants
    assert count <= links.MOST_SLOTS


def test_every_kernel_that_links_call_has_constants() -> None:
    by_themselves = {"chain.run", "streams.begin", "streams.feed", "streams.take"}
    assert set(PREFIXES) == {*chain_selection.CHAIN_KERNELS, *chain_selection.LOOP_KERNELS} - by_themselves


def test_what_the_templates_of_a_link_that_appends_have_is_apart() -> None:
    taken = [
        *range(arguments.APPENDING_HEAD, arguments.APPENDING_HEAD + 2),
        arguments.APPENDING_INSERT,
        *range(arguments.APPENDING_TAIL, arguments.APPENDING_TAIL + 2),
        arguments.APPENDING_SPARE,
    ]
    assert len(set(taken)) == len(taken)
