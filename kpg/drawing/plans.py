"""The plan of a query as a graph of boxes, from what EXPLAIN (FORMAT JSON) tells."""

from typing import Any

from kpg.drawing.graph import Box, Graph, Id

Tree = dict[str, Any]


def of_plan(root: Tree) -> Graph:
    """The nodes of a plan; those of a loop's body, ``%4.1`` of node ``%4``, are in its box."""
    nodes: dict[str, Tree] = {}
    edges: list[tuple[str, str]] = []

    def walk(tree: Tree) -> str:
        name = tree.get("Node") or f"{tree['Node Type']} {len(nodes)}"
        if not tree.get("Shared"):
            nodes[name] = tree
        edges.extend((walk(below), name) for below in tree.get("Plans", ()))
        return str(name)

    walk(root)
    return _level(nodes, edges, "")


def _level(nodes: dict[str, Tree], edges: list[tuple[str, str]], loop: str) -> Graph:
    """The nodes that are right in a loop's body, or in none."""
    here = [name for name in nodes if name.rpartition(".")[0] == loop]

    def at(name: str) -> str | None:
        while name and name not in here:
            name = name.rpartition(".")[0]
        return name or None

    ends = {(at(one), at(other)) for one, other in edges}
    found: set[tuple[Id, Id]] = {(one, other) for one, other in ends if one and other and one != other}
    return Graph([_box(nodes, edges, name) for name in here], found)


def _box(nodes: dict[str, Tree], edges: list[tuple[str, str]], name: str) -> Box:
    tree = nodes[name]
    inside = any(other.startswith(f"{name}.") for other in nodes)
    kept = tree.get("Keeps")
    kind = "loop" if inside else "table" if tree["Node Type"] in ("Source", "Import") else "plain"
    if kept is not None and kind == "plain":
        kind = "index"
    title = " ".join(
        filter(None, (name, tree["Node Type"], tree.get("Relation Name") or tree.get("Detail", "")))
    )
    cost = ", ".join(filter(None, (tree.get("Change Cost", ""), f"keeps {kept}" if kept else "")))
    about = [title, tree.get("Detail", ""), *(f"-> {one}" for one in tree.get("Output", ()))]
    about += [f"where {tree['Filter']}"] if "Filter" in tree else []
    body = _level(nodes, edges, name) if inside else None
    return Box(name, title, cost, kind, "\n".join(filter(None, about)), body)
