"""``kpg explain``: the plans of queries, without data."""

from pathlib import Path

import kpg
from kpg.runtime.errors import OperationalError


def run_explain(query: str, stage: str, schema: str | None) -> None:
    """Print the plan of every query in a file or text at a stage, over the tables of a schema."""
    with kpg.connect() as db:
        if schema == "tpch":
            from kpg.tpch.schema import create_statements

            for statement in create_statements().values():
                db.sql(statement)
        elif schema is not None:
            db.sql(read_script(schema))
        text = read_script(query) if _is_file(query) else query
        for plan in db.explanations(text, stage):
            print(plan)


def read_script(path: str) -> str:
    """The text of a script; OperationalError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OperationalError(f"cannot read {path}: {reason}") from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file() or (text.endswith(".sql") and " " not in text)
    except (OSError, ValueError):
        return False
