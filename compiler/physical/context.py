"""What planning one query needs and produces on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.catalog import Statistics
from kpg.compiler.physical.access import Access
from kpg.compiler.physical.builder import Builder
from kpg.runtime.plan import Mfp, Ref


@dataclass(frozen=True, slots=True)
class Planning:
    """The plan under construction, and the lets around the relation that is planned now."""

    statistics: Statistics
    access: Access
    lower: "Callable[[Planning, Rel, Mfp], Ref]"
    """A stream of the mfp's outputs over the relation's rows."""
    builder: Builder = field(default_factory=Builder)
    bound: Mapping[str, Rel] = field(default_factory=dict)
    local: "Mapping[str, Planning]" = field(default_factory=dict)
    """For each let in scope, the planning in whose scope its value stands."""

    def within(self, id_: str, value: Rel) -> "Planning":
        """The planning of a let's body."""
        return replace(self, bound={**self.bound, id_: value}, local={**self.local, id_: self})
