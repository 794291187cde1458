"""How many tasks a Spark session runs at once, and how many of these are workers, which do not end."""

import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from kpg.runtime.errors import InterfaceError, OperationalError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?$")
SECONDS_TO_REGISTER: Final = 30.0
"""For executors of a cluster to be there."""


class Taken(NamedTuple):
    """What workers have: so many slots of a session."""

    slots: int
    session: "SparkSession"


taken: Final[dict[str, Taken]] = {}
"""By the groups of the workers' jobs; Python has one Spark context at a time."""


def conf(context: "SparkContext", name: str, default: str) -> str:
    """A setting of the session."""
    return context.getConf().get(name, default) or default


def slots(context: "SparkContext") -> int | None:
    """How many tasks the session runs at once; None if that cannot be told."""
    cores: int | None = None
    local = LOCAL.match(context.master)
    if local is not None:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    elif not conf(context, "spark.default.parallelism", ""):
        cores = context.defaultParallelism
    return None if cores is None else cores // int(conf(context, "spark.task.cpus", "1"))


def require_slots(context: "SparkContext", count: int) -> None:
    """InterfaceError if the session does not have so many, nor gets them soon."""
    until = time.monotonic() + SECONDS_TO_REGISTER
    while (found := slots(context)) is not None and found < count:
        if LOCAL.match(context.master) or time.monotonic() > until:
            raise InterfaceError(
                f"{count} workers are more than the Spark session has slots: it has {found}",
                hint=f"workers={found}, or a session with more cores, as master local[{count}] has",
            )
        time.sleep(0.2)


def require_room(context: "SparkContext") -> None:
    """OperationalError if all slots have workers: what Spark is to do would wait for their end."""
    workers, found = sum(one.slots for one in taken.values()), slots(context)
    if workers and found is not None and found <= workers:
        raise OperationalError(
            f"Spark cannot read: all {found} slots of its session run workers",
            hint=f"give it more cores than workers, as master local[{workers + 2}] has",
        )
