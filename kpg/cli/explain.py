"""``kpg explain``: the plans of queries, without data."""

import re
from pathlib import Path
from typing import Final

import kpg
from kpg.runtime.errors import OperationalError

NAME: Final = re.compile(r'\w+(\.\w+)?|"[^"]+"')


def run_explain(query: str, stage: str, schema: str | None, folder: str | None = None) -> None:
    """Print the plan of every query in a file or text at a stage, over the tables of a schema or of a
    database in a folder; there ``query`` may be the name of a view.
    """
    with kpg.connect(folder, read_only=folder is not None) as db:
        if schema == "tpch":
            from kpg.tpch.data import create_statements

            for statement in create_statements().values():
                db.sql(statement)
        elif schema is not None:
            db.sql(read_script(schema))
        text = read_script(query) if _is_file(query) else query
        if NAME.fullmatch(text.strip()):
            text = f"EXPLAIN VIEW {text}"
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
