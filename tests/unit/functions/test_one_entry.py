"""One registration is all that a function needs, also where sqlglot has a class of its own for the name."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
from kpg.runtime.functions import aggregation, algorithms
from kpg.runtime.functions.registry import Signature, is_function, memoized
from kpg.runtime.functions.rules import fixed
from kpg.runtime.types import BIGINT, INTEGER, TEXT

three, text = fixed(TEXT, TEXT, TEXT, TEXT), fixed(INTEGER, TEXT)
for name, rule, code in (
    ("translate", three, lambda text, old, new: text.translate(str.maketrans(old, new))),
    ("ascii", text, lambda text: ord(text[0])),
    ("to_hex", fixed(TEXT, BIGINT), lambda number: f"{number:x}"),
    ("chr", fixed(TEXT, INTEGER), chr),
    ("to_char", fixed(TEXT, BIGINT, TEXT), lambda number, mask: mask + str(number)),
):
    if not is_function(name):  # by now there may be one
        memoized(name, "arguments", rule, {})(code)
for name in ("skewness", "array_length", "kurtosis"):
    aggregation.register(
        aggregation.AggregateFunction(
            name,
            "a number",
            "Exclusive or.",
            {},
            lambda types: Signature((BIGINT,), BIGINT) if len(types) == 1 else None,
            lambda types: aggregation.Algorithm(
                initialize=lambda: 0,
                add=lambda state, operands, times: state ^ (operands[0] if times % 2 else 0),
                merge=lambda left, right: left ^ right,
                finish=lambda state: state,
            ),
            aggregation.Basic(),
        )
    )

import kpg

db = kpg.connect()
db.sql("CREATE TABLE t (k INT, a VARCHAR, n BIGINT)")
calls = "skewness(n) AS x, array_length(n) AS y, kurtosis(n) AS z"
db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k, {calls} FROM t GROUP BY k")
db.insert("t", [(1, "abc", 5), (1, "bca", 3), (2, "c", 255)])
text = "SELECT translate(a, 'ab', 'xy'), ascii(a), to_hex(n), chr(65), to_char(n, 'FM') FROM t"
print(sorted(db.sql(text).fetchall()))
print(sorted(db.view("v").fetchall()))
db.delete("t", [(1, "abc", 5)])
print(sorted(db.view("v").fetchall()))
"""


def test_what_is_registered_can_be_called() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[('c', 99, 'ff', 'A', 'FM255'), ('xyc', 97, '5', 'A', 'FM5'), ('ycx', 98, '3', 'A', 'FM3')]",
        "[(1, 6, 6, 6), (2, 255, 255, 255)]",
        "[(1, 3, 3, 3), (2, 255, 255, 255)]",
    ]
