"""``docs/explanation/traps.md`` and the tests that bear its numbers name each other."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| T(\d+) \| .+ \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"def test_((?:t\d+_)+)|\((T\d+)\)")


WITHOUT_TESTS = {28}
"""It is about how the coordinator goes about it, which every test of many workers relies on."""


def test_every_trap_names_the_files_of_its_tests() -> None:
    tested = defaultdict(set)
    for path in ROOT.glob("tests/**/*.py"):
        for names, number in NAMED.findall(path.read_text(encoding="utf-8")):
            for found in re.findall(r"[tT](\d+)", names or number):
                tested[int(found)].add(str(path.relative_to(ROOT)))
    text = (ROOT / "docs" / "explanation" / "traps.md").read_text(encoding="utf-8")
    paths = dict(re.findall(r"^\[(.+)\]: \.\./\.\./(\S+)$", text, re.M))
    listed = {
        int(number): {paths[label] for label in re.findall(r"\[(.+?)\]", files)}
        for number, files in ROW.findall(text)
    }
    assert {number for number, files in listed.items() if not files} == WITHOUT_TESTS
    assert {number: files for number, files in listed.items() if files} == dict(tested)
