"""DuckDB with its reader of Postgres attached: the rows of each statement on a line."""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_postgres_scanner

STATEMENTS = """
SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns
    WHERE table_catalog = 'pg' ORDER BY table_name, ordinal_position
SELECT * FROM pg.pet ORDER BY id
SELECT name, born FROM pg.pet WHERE born > DATE '2020-01-01' AND name IN ('Ann', 'Cyd') ORDER BY 1
SELECT count(*) FROM pg.pet WHERE mood IS NULL
SELECT o.name, p.name FROM pg.pet p JOIN pg.shop.owner o ON o.id = p.owner ORDER BY 1, 2
SELECT owner, sum(weight), max(seen) FROM pg.pet GROUP BY owner ORDER BY owner
SELECT * FROM pg.heavy ORDER BY owner
SELECT * FROM postgres_query('pg', 'SELECT count(*) + 1 AS n FROM pet')
CREATE TABLE pg.made (a INT, b VARCHAR, c DOUBLE, d DECIMAL(10,2), e TIMESTAMP, f INT[])
INSERT INTO pg.made SELECT i, 'v' || i, i / 2, i, TIMESTAMP '2020-01-01', [i, i + 1] FROM range(20000) t(i)
SELECT count(*), sum(a), max(b), sum(d) FROM pg.made
UPDATE pg.made SET b = 'changed', c = c + 1 WHERE a % 5000 = 3
SELECT a, b, c FROM pg.made WHERE b = 'changed' ORDER BY a
DELETE FROM pg.made WHERE a >= 10
SELECT * FROM pg.made WHERE a < 2 ORDER BY a
SELECT sum(a), count(*) FROM pg.made
BEGIN
INSERT INTO pg.made (a) VALUES (77)
UPDATE pg.made SET a = a + 1
SELECT sum(a) FROM pg.made
ROLLBACK
SELECT sum(a) FROM pg.made
COPY (SELECT 100 AS a, 'copied' AS b) TO '{folder}/rows.csv'
COPY pg.made (a, b) FROM '{folder}/rows.csv'
COPY (SELECT a, b FROM pg.made WHERE a > 8 ORDER BY a) TO '{folder}/out.csv'
SELECT * FROM '{folder}/out.csv'
CREATE INDEX by_a ON pg.made (a)
ALTER TABLE pg.made ADD COLUMN g INT
ALTER TABLE pg.made RENAME TO other
SELECT count(g), count(*) FROM pg.other
CREATE VIEW pg.seen AS SELECT 1 AS x
SELECT * FROM pg.seen
DROP VIEW pg.seen
DROP TABLE pg.other
"""


def main(address: str, folder: str) -> None:
    """Runs the statements, and reads a large table by several threads, each its places."""
    extension = next(Path(duckdb_extension_postgres_scanner.__file__).parent.rglob("*.duckdb_extension"))
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    db.execute(f"LOAD '{extension}'")
    db.execute(f"ATTACH '{address}' AS pg (TYPE postgres)")
    for text in STATEMENTS.replace("\n    ", " ").strip().splitlines():
        try:
            print(text.split()[0].lower(), *db.execute(text.format(folder=folder)).fetchall())
        except duckdb.Error as error:
            print(text, "\n   ", error)
    db.execute("SET threads = 4")
    db.execute("SET pg_pages_per_task = 10")
    print("parallel", *db.execute("SELECT count(*), sum(a), count(DISTINCT a) FROM pg.large").fetchall())


main(*sys.argv[1:])
