"""pgcli without its prompt: what it learns of a database, what it completes, and what its commands show."""

import sys
import threading

from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial
from prompt_toolkit.document import Document

TEXTS = (
    "SELECT * FROM ",
    "SELECT * FROM shop.",
    "SELECT pet. FROM pet",
    "INSERT INTO pet (",
    "SELECT * FROM pet JOIN shop.owner ON ",
    "SELECT * FROM pet JOIN ",
    "SELECT ag",
    "SELECT * FROM older(",
    "ALTER TYPE mo",
    "SELECT NULL::mo",
    "DROP VIEW ",
    "UPDATE pet SET ",
    "\\d ",
)
COMMANDS = (
    *(r"\d", r"\dt", r"\d pet", r"\d+ pet", r"\dv", r"\dm", r"\di", r"\ds", r"\df", r"\sf older", r"\dT"),
    *(r"\dx", r"\dp", r"\ddp", r"\dE", r"\d light", r"\d old", r"\d pet_pkey"),
)


def main(dsn: str) -> None:
    """Prints what is learned, completed and shown."""
    execute = PGExecute(dsn=dsn)
    special, done, found = PGSpecial(), threading.Event(), []

    def learned(completer: object) -> None:
        found.append(completer)
        done.set()

    CompletionRefresher().refresh(execute, special, learned, settings={})
    done.wait(300)
    (completer,) = found
    metadata = completer.dbmetadata
    for kind in ("tables", "views", "datatypes"):
        for schema in ("public", "shop"):
            names = metadata[kind][schema]
            print(kind, schema, {name: list(of or ()) for name, of in sorted(names.items())})
    print("functions", sorted(metadata["functions"].get("public", {})))
    for name, column in metadata["tables"]["public"]["pet"].items():
        print("column", name, column.datatype, column.default, *map(tuple, column.foreignkeys))
    for text in TEXTS:
        completions = completer.get_completions(Document(text), None, smart_completion=True)
        words = sorted(
            {
                one.text
                for one in completions
                if one.display_meta_text not in ("keyword", "function", "datatype")
            }
        )
        print(text, [word for word in words if not word.startswith(("pg_", "information_schema"))][:12])
    for command in COMMANDS:
        try:
            for _, rows, headers, status, *_ in execute.run(command, pgspecial=special):
                print(command, headers, [tuple(row) for row in rows or ()], status)
        except Exception as error:
            print(command, type(error).__name__, str(error).splitlines()[0])


main(*sys.argv[1:])
