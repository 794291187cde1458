"""What is drawn: boxes with a name and figures, joined by lines, some with a graph within."""

from dataclasses import field

from kpg.runtime.records import dataclass

Id = str | int


@dataclass(slots=True)
class Box:
    """``kind`` says how it looks: table, index, view, plain or loop."""

    id: Id
    name: str
    figures: str
    kind: str
    about: str = ""
    """What is shown when it is pointed at."""
    body: "Graph | None" = None


@dataclass(slots=True)
class Graph:
    """Boxes, and which is made of which: ``(from, to)``, never in a circle."""

    boxes: list[Box]
    edges: set[tuple[Id, Id]] = field(default_factory=set)
