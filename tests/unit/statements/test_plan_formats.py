"""A tree in each format, read back by parsers that are not ours."""

import json
from xml.etree import ElementTree

import pytest
import yaml

from kpg.execute.queries.explain import format_tree

TREE = {
    "Plan": {
        "Node Type": "Linear",
        "Output": ["#0", "'é\u2028😀: - \"x\"\\'", "a\nb", "- 1", "{", "null", "1"],
        "Shared": True,
        "Actual Rows": 3,
        "Plans": [{"Node Type": "Source", "Node": "%0", "Odd/Name (1)": "<&>"}],
    },
    "Notes": ["# none"],
    "Empty": [],
    "Execution Time": 0.25,
}


@pytest.mark.parametrize(("format_", "read"), [("JSON", json.loads), ("YAML", yaml.safe_load)])
def test_what_is_written_is_read(format_: str, read: object) -> None:
    assert callable(read) and read(format_tree(TREE, format_)) == [TREE]


def test_xml_is_what_postgres_readers_look_for() -> None:
    tree = {"Plan": {"Node Type": "Source", "Output": ["a < b\r\x01"], "Plans": [{"Node": "%1"}], "On": True}}
    text = format_tree(tree, "XML")
    assert text.splitlines()[:4] == [
        '<explain xmlns="http://www.postgresql.org/2009/explain">',
        "  <Query>",
        "    <Plan>",
        "      <Node-Type>Source</Node-Type>",
    ]
    found = [
        (one.tag.partition("}")[2], (one.text or "").strip()) for one in ElementTree.fromstring(text).iter()
    ]
    assert found[4:] == [
        ("Output", ""),
        ("Item", "a < b\r\ufffd".strip()),
        ("Plans", ""),
        ("Plan", ""),
        ("Node", "%1"),
        ("On", "true"),
    ]
