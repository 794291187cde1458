"""One registration is all that a function needs, also where sqlglot has a class of its own for the name."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
from kpg.runtime.functions.aggregation import definition
from kpg.runtime.functions.registry import Signature, is_function, register_memoized
from kpg.runtime.functions.type_rules import signature_rule
from kpg.runtime.types import BIGINT, INTEGER, TEXT

for name, rule, code in (
    ("soundex", signature_rule(TEXT, TEXT), str.upper),
    ("levenshtein", signature_rule(INTEGER, TEXT, TEXT), lambda one, other: abs(len(one) - len(other))),
    ("farm_fingerprint", signature_rule(TEXT, BIGINT), lambda number: f"<{number}>"),
):
    assert not is_function(name), "choose another that sqlglot has a class for"
    register_memoized(name, "arguments", rule, {})(code)
for name in ("skewness", "array_length", "kurtosis"):
    definition.register(
        definition.AggregateFunction(
            name,
            "a number",
            "Exclusive or.",
            {},
            lambda types: Signature((BIGINT,), BIGINT) if len(types) == 1 else None,
            lambda types: definition.Algorithm(
                initialize=lambda: 0,
                add=lambda state, operands, times: state ^ (operands[0] if times % 2 else 0),
                merge=lambda left, right: left ^ right,
                finish=lambda state: state,
            ),
            definition.Basic(),
        )
    )

import kpg

db = kpg.connect()
db.sql("CREATE TABLE t (k INT, a VARCHAR, n BIGINT)")
calls = "skewness(n) AS x, array_length(n) AS y, kurtosis(n) AS z"
db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k, {calls} FROM t GROUP BY k")
db.insert("t", [(1, "abc", 5), (1, "bca", 3), (2, "c", 255)])
text = "SELECT soundex(a), levenshtein(a, 'ab'), farm_fingerprint(n) FROM t"
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
        "[('ABC', 1, '<5>'), ('BCA', 1, '<3>'), ('C', 1, '<255>')]",
        "[(1, 6, 6, 6), (2, 255, 255, 255)]",
        "[(1, 3, 3, 3), (2, 255, 255, 255)]",
    ]
