"""Pictures are well-formed, have all that is drawn, and nothing that a name could smuggle in."""

from xml.etree import ElementTree

from kpg.api.svg import Box, Graph, svg

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_names_and_figures_are_there() -> None:
    inner = Graph([Box(5, "Distinct", "3 rows", "plain")])
    graph = Graph([Box(1, "t", "2 rows", "table"), Box(4, "Loop", "7 rounds", "loop", "", inner)], {(1, 4)})
    picture = svg(graph)
    assert texts(picture) == ["t", "2 rows", "Loop", "7 rounds", "Distinct", "3 rows"]
    root = ElementTree.fromstring(picture)
    assert len(list(root.iter(f"{SVG}path"))) == 1
    assert len(list(root.iter(f"{SVG}rect"))) == 3


def test_a_loop_has_room_for_what_is_in_it() -> None:
    inner = Graph([Box(place, f"an operator with the number {place}", "", "plain") for place in range(5)])
    root = ElementTree.fromstring(svg(Graph([Box(9, "Loop", "", "loop", "", inner)])))
    outer, *others = root.iter(f"{SVG}rect")
    assert float(outer.attrib["height"]) > 5 * float(others[0].attrib["height"])
    assert float(outer.attrib["width"]) > float(others[0].attrib["width"])


def test_names_are_no_markup() -> None:
    hostile = "</text><script>alert('x')</script>&\"'"
    picture = svg(Graph([Box(hostile, hostile, hostile, "view", hostile)]))
    assert texts(picture) == ["</text><script>alert('x')</script>&\"'"] * 2
    assert {one.tag for one in ElementTree.fromstring(picture).iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "g", "title", "rect", "text")
    }


def test_long_names_are_cut_and_told_when_pointed_at() -> None:
    name = "x" * 200
    picture = svg(Graph([Box(1, name, "", "plain")]))
    assert texts(picture)[0] == "x" * 43 + "…"
    assert f"<title>{name}</title>" in picture


def test_nothing_to_draw_is_a_picture() -> None:
    assert ElementTree.fromstring(svg(Graph([]))).tag == f"{SVG}svg"
