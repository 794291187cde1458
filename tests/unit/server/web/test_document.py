"""What docs/reference/server.md shows of HTTP is what is answered."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path

from tests.markdown import blocks
from tests.unit.server.web.conftest import web_of

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "server.md"


def test_requests_and_answers_of_the_document() -> None:
    found = blocks(DOCUMENT.read_text(encoding="utf-8"))
    pairs = [
        (asked.code, answer.code)
        for asked, answer in pairwise(found)
        if asked.code.startswith("curl") and answer.language == "json"
    ]
    assert len(pairs) == 4
    with web_of() as web:
        for asked, expected in pairs:
            command = asked.replace("127.0.0.1:8080", f"127.0.0.1:{web.port}")
            finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
            assert json.loads(finished.stdout) == json.loads(expected)
