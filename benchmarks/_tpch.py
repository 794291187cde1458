"""What the TPC-H programs share: the data as words, and databases filled from it."""

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console

import kpg
from kpg import Database
from kpg.runtime.convert.arrow import encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import Schema
from kpg.runtime.worker.worker import Worker
from kpg.tpch.data import QUERIES, TABLES, create_statements, data_folder, query_text, table_path
from kpg.tpch.job import prepare_data

Words = NDArray[np.int64]


def add_arguments(parser: argparse.ArgumentParser, scale: float) -> None:
    """The options ``--scale``, ``--data`` and ``--queries``."""
    parser.add_argument("--scale", type=float, default=scale, help=f"scale factor, by default {scale:g}")
    parser.add_argument("--data", type=Path, help="folder with sf<scale>/<table>.parquet")
    parser.add_argument(
        "--queries", type=numbers, default=QUERIES, help="all, or numbers and ranges such as 1,3,5-8"
    )


def numbers(text: str) -> tuple[int, ...]:
    """The query numbers of ``--queries``."""
    if text == "all":
        return QUERIES
    bounds = [part.partition("-") for part in text.split(",")]
    return tuple(n for first, _, last in bounds for n in range(int(first), int(last or first) + 1))


def folder(options: argparse.Namespace) -> Path:
    """The folder of the data that the options ask for, generated if need be."""
    found = data_folder(options.scale, options.data)
    prepare_data(options.scale, found, Console(stderr=True))
    return found


@cache
def tables_of(number: int) -> tuple[str, ...]:
    """The tables that a query reads, in alphabetical order."""
    words = set(re.findall(r"\w+", query_text(number)))
    return tuple(sorted(words & set(TABLES)))


@cache
def schema_of(table: str) -> Schema:
    """The schema that the CREATE TABLE statement of a table declares."""
    database = kpg.connect()
    database.sql(create_statements()[table])
    return worker_of(database).tables.by_name[table].schema


def worker_of(database: Database) -> Worker:
    """The worker below the public interface."""
    return database._engine.executor


@dataclass(frozen=True, slots=True)
class Encoded:
    """TPC-H tables as words ``int64[ncols, n]``, with the dictionary that gave the codes of texts."""

    dictionary: Dictionary
    schemas: Mapping[str, Schema]
    words: Mapping[str, Words]

    @staticmethod
    def of(path: Path, tables: Iterable[str]) -> "Encoded":
        """The tables in the files of a folder, whole."""
        dictionary = Dictionary()
        schemas = {table: schema_of(table) for table in tables}
        words = {
            table: encode_table(pq.read_table(table_path(path, table)), schema, dictionary)
            for table, schema in schemas.items()
        }
        return Encoded(dictionary, schemas, words)

    def used_by(self, number: int, *, all_columns: bool, keys: bool) -> "Encoded":
        """The tables that a query reads, with all columns or those it names and the primary key."""
        named = set(re.findall(r"\w+", query_text(number)))
        schemas, words = {}, {}
        for table in tables_of(number):
            schema = self.schemas[table]
            key = schema.primary_key if keys else ()
            kept = [i for i, name in enumerate(schema.names) if all_columns or i in key or name in named]
            columns = tuple(schema.columns[i] for i in kept)
            schemas[table] = Schema(columns, tuple(kept.index(i) for i in key))
            words[table] = self.words[table] if all_columns else self.words[table][kept]
        return Encoded(self.dictionary, schemas, words)

    def empty_database(self) -> Database:
        """A new database with these tables, empty; texts have the codes that they have here."""
        database = kpg.connect()
        worker_of(database).dictionary = self.dictionary
        for table, schema in self.schemas.items():
            database._engine.tables.create(table, schema)
        return database

    def database(self) -> Database:
        """A new database with these tables, filled."""
        database = self.empty_database()
        with database.transaction():
            for table, words in self.words.items():
                worker_of(database).tables.by_name[table].insert(words)
        return database


def install(database: Database, number: int) -> None:
    """Install a query as the view ``q<number>``."""
    database.sql(f"create materialized view q{number} as {query_text(number)}")
