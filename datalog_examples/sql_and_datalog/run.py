"""The example in Python: tables in SQL, rules over them, a query over the rules, and a change."""

from pathlib import Path

import kpg

FOLDER = Path(__file__).parent


def main() -> None:
    """Print everyone's subordinates before and after a move."""
    report = (FOLDER / "report.sql").read_text()
    with kpg.connect() as db:
        db.sql((FOLDER / "schema.sql").read_text())
        db.datalog((FOLDER / "program.dl").read_text())
        print(db.query(report))
        # Lars gets another manager, and Lars' subordinates move with him.
        db.sql("UPDATE employees SET manager = 3 WHERE id = 4")
        print(db.query(report))


if __name__ == "__main__":
    main()
