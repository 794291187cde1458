"""The commands of the command line, with their options and help texts.

The other modules of this package do the work. A missing optional package is an error that
names what to install.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kpg import __version__
from kpg.cli.datalog import datalog
from kpg.cli.output import Format
from kpg.cli.script import run_command, run_explain
from kpg.runtime.errors import OperationalError
from kpg.runtime.gc_pause import LazyModule

if TYPE_CHECKING:
    from kpg.api.database import Database
    from kpg.cli import folders as folder_commands
    from kpg.cli import functions as function_list
    from kpg.cli import sql_prompt
else:
    folder_commands = LazyModule("kpg.cli.folders")
    function_list = LazyModule("kpg.cli.functions")
    sql_prompt = LazyModule("kpg.cli.sql_prompt")

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SQL_HELP = """
Run SQL: from a [bold]FILE[/bold], from standard input ([bold]-[/bold]), from [bold]-c[/bold], or at a prompt.

The database lives in memory, for as long as the command runs, or in a [bold]--folder[/bold].
A script stops at the first error.

Examples:

[green]$ kpg sql[/green]    a prompt; .help lists its commands

[green]$ kpg sql report.sql[/green]    run a script

[green]$ kpg sql -c "SELECT 1 + 1"[/green]    run one statement

[green]$ kpg sql --folder shop[/green]    a prompt; the folder is created if it does not exist

[green]$ kpg sql --format csv load_and_query.sql > answer.csv[/green]    for other programs
"""

EXPLAIN_HELP = """
Show how queries are computed and kept up to date, and what a change costs each step.

[bold]QUERY[/bold] is a file with SQL, or the SQL itself. Its queries are explained, the rest is run.
With --folder it is planned in that database, and may be the name of a view.

Examples:

[green]$ kpg explain query.sql --schema tables.sql[/green]

[green]$ kpg explain "SELECT count(*) FROM lineitem" --schema tpch --stage logical[/green]
"""

TPCH_HELP = """
Run the TPC-H benchmark: load, install the queries as views, refresh them, compare each with DuckDB.

The exit code is 1 if any answer ever differed.

Examples:

[green]$ kpg tpch[/green]    all 22 queries at scale factor 0.1

[green]$ kpg tpch --scale 1 --queries 3,5,18 --refreshes 10[/green]

[green]$ kpg tpch --json report.json[/green]    the figures for other programs
"""

SERVE_HELP = """
Serve a database to many clients: psql and other clients of Postgres' protocol.

Clients log in with a password from the environment variable [bold]KPG_PASSWORD[/bold].

Examples:

[green]$ kpg serve --trust[/green]    for everybody on this machine, in memory

[green]$ kpg serve --trust FOLDER[/green]    a durable database

[green]$ KPG_PASSWORD=... kpg serve --listen 0.0.0.0:5433 --certificate server.crt --key server.key[/green]

[green]$ psql -h 127.0.0.1 -p 5433 -U kpg[/green]    in another terminal

[green]$ kpg serve --trust --http 127.0.0.1:8080[/green]    with HTTP, and a page at http://127.0.0.1:8080

[green]$ kpg serve FOLDER --log-format json --log-level info --log-slow 500ms[/green]    as a service

SIGTERM or Ctrl-C stops it: running statements have --grace to end, then they are canceled; open
transactions are rolled back; a database in a folder writes a checkpoint. A second signal ends the
wait. The exit code is 0 when it has stopped, and 1 if it could not start.
"""

INSPECT_HELP = """
Show the content of a database folder: its files with their kinds and sizes, its tables and views.

Nothing is written, and another process may have the database open.

Examples:

[green]$ kpg inspect shop[/green]
"""

CHECK_HELP = """
Verify a database: files by their checksums, indexes by their tables, views by their queries.

Nothing is written. The exit code is 1 if anything is wrong. If another process has the database open,
its last commit is checked. No code that the folder names is run: views that call Python functions are
listed but not compared, unless --imports is given.

--repair is for a damaged log, with which the database does not open: it truncates the log after the
last readable commit, lists the lost records, and keeps the removed part in files named .damaged.

Examples:

[green]$ kpg check shop[/green]

[green]$ kpg check --repair shop[/green]    lose the commits after the damage of a log
"""

FUNCTIONS_HELP = """
List the functions that SQL can call: argument types, meaning and an example.

Examples:

[green]$ kpg functions[/green]

[green]$ kpg functions date[/green]    those with "date" in their name or description
"""


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"kpg {__version__}")
        raise typer.Exit


@app.callback()
def kpg(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """SQL views and Datalog programs kept up to date while their tables change.

    Start with [green]kpg sql[/green] for a prompt, or [green]kpg tpch[/green] to see it work.
    """


@app.command("sql", help=SQL_HELP)
def sql(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A script, or - for standard input.", show_default=False),
    ] = None,
    command: Annotated[
        str | None, typer.Option("-c", "--command", metavar="TEXT", help="Run this text.", show_default=False)
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", "-f", help="How to print rows.")
    ] = Format.TABLE,
    folder: Annotated[
        str | None,
        typer.Option("--folder", "-d", metavar="FOLDER", help="The database there.", show_default=False),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only read the folder.")] = False,
) -> None:
    raise typer.Exit(run_command(file, command, output_format, _prompt, folder, read_only=read_only))


def _prompt(db: "Database", output_format: Format) -> int:
    return sql_prompt.Prompt(db, output_format).run()


@app.command("explain", help=EXPLAIN_HELP)
def explain(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A file with SQL, or SQL.", show_default=False)
    ],
    stage: Annotated[
        str,
        typer.Option(metavar="STAGE", help="ast, logical, magic, steps, optimized, physical, arrangements."),
    ] = "physical",
    schema: Annotated[
        str | None,
        typer.Option(help="A file that creates the tables, or tpch.", metavar="FILE", show_default=False),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option("--folder", "-d", metavar="FOLDER", help="The database there.", show_default=False),
    ] = None,
) -> None:
    run_explain(query, stage, schema, folder)


@app.command("tpch", help=TPCH_HELP)
def tpch(
    scale: Annotated[float, typer.Option(help="Scale factor: 1 is about 1 GB of text.")] = 0.1,
    queries: Annotated[
        str | None, typer.Option(metavar="LIST", help="Queries, such as 3,5,18.", show_default="all 22")
    ] = None,
    refreshes: Annotated[int, typer.Option(min=0, help="Refresh batches to apply.")] = 5,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS",
            min=1,
            help="Orders that a refresh inserts, and deletes.",
            show_default="as specified: 1500 times the scale factor",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the generated data.", show_default="a cache folder"),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures here.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random refreshes.")] = 1,
) -> None:
    from rich.console import Console  # lazy: it takes longer than the help that is shown without it

    numbers = parse_query_numbers(queries)
    with require_extra("tpch", "duckdb", "tpchgen_cli"):
        from kpg.tpch.job import run  # lazy: duckdb is an optional dependency
    code = run(
        scale=scale,
        queries=numbers,
        refreshes=refreshes,
        batch=batch,
        data=data,
        json=json,
        seed=seed,
        console=Console(),
    )
    raise typer.Exit(code)


@app.command("serve", help=SERVE_HELP)
def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="A durable database; without one it is in memory."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 for a free port.")
    ] = "127.0.0.1:5433",
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Also serve HTTP and the web page.", show_default=False),
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of a Unix socket: psql -h DIR.", show_default=False),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Require no password.")] = False,
    user: Annotated[str, typer.Option(metavar="NAME", help="The user with the password.")] = "kpg",
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate, for TLS.", show_default=False)
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.", show_default=False)] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help='As "4 GB".', show_default=False)
    ] = None,
    statement_memory_limit: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Per statement; default half the memory, 0 for none."),
    ] = "",
    history: Annotated[
        str | None, typer.Option(metavar="SPAN", help='History to keep, as "1 hour".', show_default=False)
    ] = None,
    synchronous: Annotated[
        str, typer.Option(metavar="MODE", help="full, normal or off: when commits are on the disk.")
    ] = "full",
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that maintain the views.")] = 1,
    max_connections: Annotated[
        int, typer.Option(metavar="N", min=1, help="Connections at the same time.")
    ] = 1_000,
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="For running statements to end at a stop.")
    ] = "10s",
    superuser_reserved_connections: Annotated[
        int, typer.Option(metavar="N", min=0, help="Reserved for superusers.")
    ] = 3,
    query_processes: Annotated[
        int, typer.Option(metavar="N", min=0, help="Long queries that run beside the engine at once.")
    ] = 2,
    log_slow: Annotated[
        str,
        typer.Option(metavar="TIME", help="Log slow statements, from 500ms, 2s, ...", show_default=False),
    ] = "",
    log_format: Annotated[str, typer.Option(metavar="FORM", help="text or json.")] = "text",
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = "warning",
    log_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log file; default standard error.", show_default=False),
    ] = None,
) -> None:
    with require_extra("server", "pygwire"):
        from kpg.cli.serve import run_serve  # lazy: pygwire is an optional dependency
    run_serve(
        folder,
        listen,
        trust=trust,
        user=user,
        certificate=certificate,
        key=key,
        memory_limit=memory_limit,
        statement_memory_limit=statement_memory_limit,
        http=http,
        history=history,
        max_connections=max_connections,
        log_slow=log_slow,
        log_format=log_format,
        log_level=log_level,
        log_file=log_file,
        reserved_connections=superuser_reserved_connections,
        query_processes=query_processes,
        grace=grace,
        synchronous=synchronous,
        workers=workers,
        socket=socket,
    )


@app.command("inspect", help=INSPECT_HELP)
def inspect(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of a database.", show_default=False)
    ],
) -> None:
    raise typer.Exit(folder_commands.run_inspect(folder))


@app.command("check", help=CHECK_HELP)
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of a database.", show_default=False)
    ],
    imports: Annotated[
        bool, typer.Option("--imports", help="Import the Python functions that the folder names.")
    ] = False,
    repairs: Annotated[
        bool, typer.Option("--repair", help="First truncate a damaged log; later commits are lost.")
    ] = False,
) -> None:
    raise typer.Exit(folder_commands.run_check(folder, imports=imports, repairs=repairs))


@app.command("functions", help=FUNCTIONS_HELP)
def functions(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="Only functions with this text.", show_default=False),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/reference/functions.md.")
    ] = False,
) -> None:
    if markdown:
        typer.echo(function_list.format_functions_page(), nl=False)
    else:
        raise typer.Exit(function_list.list_functions(pattern))


app.add_typer(datalog, name="datalog")


@contextmanager
def require_extra(extra: str, *packages: str) -> Iterator[None]:
    """Convert an ImportError for one of ``packages`` to an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in packages:
            raise
        raise OperationalError(
            f"this needs the package {error.name}", hint=f'pip install "kpg[{extra}]"'
        ) from error


def parse_query_numbers(text: str | None) -> list[int]:
    """Parse a list of TPC-H queries such as ``3,5,18`` or ``1-3``; empty for None.

    Raises typer.BadParameter if it is invalid.
    """
    numbers: list[int] = []
    for part in (text or "").replace(" ", "").split(","):
        first, hyphen, last = part.partition("-")
        if not part:
            continue
        if not first.isdigit() or (hyphen and not last.isdigit()):
            raise typer.BadParameter(f"{part!r} is not a query number", param_hint="--queries")
        numbers.extend(range(int(first), int(last or first) + 1))
    for number in numbers:
        if not 1 <= number <= 22:
            raise typer.BadParameter(f"TPC-H has queries 1 to 22, not {number}", param_hint="--queries")
    return list(dict.fromkeys(numbers))
