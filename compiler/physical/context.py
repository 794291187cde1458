"""What planning one query needs and produces on the way."""

from collections.abc import Callable
from dataclasses import field

from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.physical.access import Access
from kpg.compiler.physical.builder import Builder
from kpg.compiler.physical.estimate import Sizes
from kpg.compiler.physical.late import Storage
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass


@dataclass(slots=True, eq=False)
class Planning:
    """The plan under construction, and what is known about the relations that it is made of."""

    facts: Facts
    """Their ``bound`` are the values of the query's lets, whose ids are unique."""
    storage: Storage
    sizes: Sizes
    lower: "Callable[[Planning, Rel, Mfp], Ref]"
    """A stream of the mfp's outputs over the relation's rows."""
    access: Access = field(default_factory=Access)
    builder: Builder = field(default_factory=Builder)
    lowered: dict[tuple[Rel, Mfp], Ref] = field(default_factory=dict)
    """The streams that are planned already."""
    around: "Planning | None" = None
    """In a loop's body, the planning of what is around the loop."""
    recursive: dict[str, Ref] = field(default_factory=dict)
    """The streams of recursive relations: in a loop's body its variables, around it its fixed points."""
    reads: dict[Rel, frozenset[str]] = field(default_factory=dict)
    """The ids of lets that relations read."""
