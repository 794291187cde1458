"""``kpg datalog``: runs a program on fact files, checks it, or starts the prompt."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kpg
from kpg.cli.output import Format, write
from kpg.cli.script import read_script
from kpg.runtime.errors import DatalogError
from kpg.runtime.gc_pause import LazyModule

if TYPE_CHECKING:
    from kpg.api.database import Database
    from kpg.cli import datalog_prompt
    from kpg.compiler.datalog import check as datalog_check
    from kpg.compiler.datalog import diagnostics
    from kpg.compiler.datalog import preprocessor as datalog_preprocessor
    from kpg.datalog import dispatch as datalog_dispatch
    from kpg.datalog import output_files
    from kpg.datalog import transcript as transcripts
else:
    datalog_prompt = LazyModule("kpg.cli.datalog_prompt")
    datalog_check = LazyModule("kpg.compiler.datalog.check")
    diagnostics = LazyModule("kpg.compiler.datalog.diagnostics")
    datalog_preprocessor = LazyModule("kpg.compiler.datalog.preprocessor")
    datalog_dispatch = LazyModule("kpg.datalog.dispatch")
    output_files = LazyModule("kpg.datalog.output_files")
    transcripts = LazyModule("kpg.datalog.transcript")

datalog = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run, check and try out Datalog programs: rules whose conclusions are kept up to date.",
)

RUN_HELP = """
Run a Datalog [bold]PROGRAM[/bold]: read its .input files, derive, write its .output files, answer its goals.

The facts of a relation r are in r.facts or r.tsv (tabs), r.csv (commas) or r.parquet in the folder of facts,
unless its .input names another file. Outputs are r.csv, with tabs, in the folder of outputs.

Examples:

[green]$ kpg datalog run paths.dl -F facts -D out[/green]

[green]$ kpg datalog run paths.dl -F facts -D -[/green]    outputs on the screen

[green]$ kpg datalog run paths.dl --transcript changes.txt[/green]    transactions, and what each changes

[green]$ kpg datalog run paths.dl -I library -M "DEBUG=1 DEPTH=3"[/green]    for the preprocessor
"""

CHECK_HELP = """
Print the errors and warnings of a Datalog [bold]PROGRAM[/bold]. The exit code is 1 if there are errors.

Examples:

[green]$ kpg datalog check paths.dl[/green]

[green]$ kpg datalog check paths.dl --json[/green]    for editors
"""

REPL_HELP = """
Type rules, facts, goals and updates at a prompt, beginning with a [bold]PROGRAM[/bold] if one is given.

Examples:

[green]$ kpg datalog repl[/green]    .help lists its commands

[green]$ kpg datalog repl paths.dl -F facts[/green]
"""

ProgramFile = Annotated[Path, typer.Argument(metavar="PROGRAM", help="A .dl file.", show_default=False)]
Facts = Annotated[Path, typer.Option("--facts", "-F", metavar="DIR", help="Where .input reads.")]
Schema = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="SQL that creates tables that rules read.", show_default=False),
]


Include = Annotated[
    list[str] | None,
    typer.Option("--include-dir", "-I", metavar="DIR", help="Search here for #include.", show_default=False),
]
Macros = Annotated[
    list[str] | None,
    typer.Option("--macro", "-M", metavar="NAME=TEXT", help="A macro, as by #define.", show_default=False),
]


def _ignored_option(*names: str) -> Any:
    """Return an option of ``souffle`` that has no effect here; using it prints a note."""
    return typer.Option(*names, hidden=True, callback=_warn_ignored)


def _warn_ignored(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    if value and not context.resilient_parsing:
        print(
            f"{parameter.opts[0]} has no effect: {IGNORED_REASONS.get(parameter.name or '', DEFAULT_REASON)}",
            file=sys.stderr,
        )
    return value


DEFAULT_REASON = "it controls the compiler of souffle"
IGNORED_REASONS = {
    "profile": "see PROFILE in SQL, and kpg serve --http",
    "provenance": "see .explain at the prompt of kpg datalog repl, and db.explain_row",
    "library": "functions are Python's: -l functions.py",
    "program_file": "programs are run, not printed",
}


def _parse_macros(texts: list[str] | None) -> dict[str, str]:
    """Parse macros as Soufflé does: a text may hold several, and a name alone means 1."""
    parts = (part.partition("=") for text in texts or () for part in text.split())
    return {name: body if sign else "1" for name, sign, body in parts}


def _open_database(schema: Path | None) -> "Database":
    """Return an in-memory database after running a script."""
    db = kpg.connect()
    if schema is not None:
        db.sql(read_script(str(schema)))
    return db


def _load_functions(path: Path) -> dict[str, Callable[..., Any]]:
    """Return the callables that a Python file defines."""
    namespace = runpy.run_path(str(path))
    return {name: value for name, value in namespace.items() if callable(value)}


def _format_pragmas(texts: list[str] | None) -> str:
    """Return the Datalog text of ``KEY:VALUE`` pragmas."""
    pairs = (part.partition(":") for text in texts or () for part in text.split(";"))
    return "".join(f'\n.pragma "{key}" "{value}"' for key, _, value in pairs)


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _ignore_warning(message: str) -> None:
    return


@datalog.command("run", help=RUN_HELP)
def run(
    program: ProgramFile,
    facts: Facts = Path("."),
    output: Annotated[
        str, typer.Option("--output", "-D", metavar="DIR", help="Where .output writes, - for the screen.")
    ] = ".",
    transcript: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Transactions to run after the start.", show_default=False),
    ] = None,
    schema: Schema = None,
    include: Include = None,
    macros: Macros = None,
    pragma: Annotated[
        list[str] | None,
        typer.Option("--pragma", "-P", metavar="KEY:VALUE", help="As .pragma.", show_default=False),
    ] = None,
    functors: Annotated[
        Path | None,
        typer.Option(
            "--functors",
            "-l",
            metavar="FILE",
            help="Python functions of declared functors.",
            show_default=False,
        ),
    ] = None,
    no_warn: Annotated[bool, typer.Option("--no-warn", "-w", help="Print no warnings.")] = False,
    magic: Annotated[
        str | None,
        typer.Option(
            "--magic-transform",
            "-m",
            metavar="RELATIONS",
            help="As the pragma: for these, or * for all.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[str, typer.Option("--jobs", "-j", hidden=True)] = "1",
    compiled: Annotated[bool, typer.Option("--compile", "-c", hidden=True)] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", hidden=True)] = False,
    legacy: Annotated[
        bool, typer.Option("--legacy", help="As the pragma: heads take values of types above their columns'.")
    ] = False,
    profile: Annotated[str | None, _ignored_option("--profile", "-p")] = None,
    report: Annotated[str | None, _ignored_option("--debug-report", "-r")] = None,
    provenance: Annotated[str | None, _ignored_option("--provenance", "-t")] = None,
    generated: Annotated[str | None, _ignored_option("--generate", "-g", "--generate-many", "-G")] = None,
    program_file: Annotated[str | None, _ignored_option("--dl-program", "-o")] = None,
    library: Annotated[str | None, _ignored_option("--library-dir", "-L")] = None,
    disabled: Annotated[str | None, _ignored_option("--disable-transformers", "-z")] = None,
    preprocessor: Annotated[str | None, _ignored_option("--preprocessor")] = None,
    output_format: Annotated[
        Format, typer.Option("--format", "-f", help="How to print answers.")
    ] = Format.TABLE,
) -> None:
    with _open_database(schema) as db:
        more = [f"magic-transform:{magic}"] if magic else []
        more += ["legacy"] if legacy else []
        text = read_script(str(program)) + _format_pragmas([*(pragma or ()), *more])
        installed = datalog_dispatch.install(
            db._engine,
            db._check_open,
            text,
            filename=str(program),
            facts=str(facts),
            setting=datalog_preprocessor.Setting(tuple(include or ()), tuple(_parse_macros(macros).items())),
            functors=None if functors is None else _load_functions(functors),
            report_missing=_ignore_warning if no_warn else _warn,
        )
        for warning in () if no_warn else installed.warnings:
            print(warning.text(), file=sys.stderr)
        if transcript is not None:
            transcripts.run_transcript(
                installed, read_script(str(transcript)), str(transcript), facts, sys.stdout
            )
        elif installed.takes_commands and not sys.stdin.isatty():
            transcripts.run_transcript(installed, sys.stdin.read(), "<stdin>", facts, sys.stdout)
        output_files.write_outputs(installed, output, sys.stdout)
        for goal in installed.goals:
            if not goal.parameters:
                write(goal(), output_format, sys.stdout)
            else:
                names = ", ".join(f"${name}" for name in goal.parameters)
                print(f"a goal with parameters ({names}) is skipped: see kpg datalog repl", file=sys.stderr)


@datalog.command("check", help=CHECK_HELP)
def check(
    program: ProgramFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False,
    schema: Schema = None,
    include: Include = None,
    macros: Macros = None,
) -> None:
    try:
        with _open_database(schema) as db:
            catalog = db._engine.catalog
            setting = datalog_preprocessor.Setting(tuple(include or ()), tuple(_parse_macros(macros).items()))
            text = read_script(str(program))
            found = datalog_check.check(text, catalog, file=str(program), setting=setting).warnings
    except DatalogError as error:
        found = error.diagnostics
    errors = sum(one.severity == "error" for one in found)
    if as_json:
        print(json.dumps(diagnostics.to_json(found), indent=2, ensure_ascii=False))
    else:
        for one in found:
            print(one.text() if one.severity == "warning" else f"error: {one.text()}", end="\n\n")
        print(f"{program}: {_count_nouns(errors, 'error')}, {_count_nouns(len(found) - errors, 'warning')}")
    raise typer.Exit(1 if errors else 0)


def _count_nouns(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@datalog.command("repl", help=REPL_HELP)
def repl(
    program: Annotated[
        Path | None, typer.Argument(metavar="[PROGRAM]", help="A .dl file.", show_default=False)
    ] = None,
    facts: Facts = Path("."),
    schema: Schema = None,
    output_format: Annotated[
        Format, typer.Option("--format", "-f", help="How to print answers.")
    ] = Format.TABLE,
) -> None:
    with _open_database(schema) as db:
        prompt = datalog_prompt.DatalogPrompt(db, output_format)
        if program is not None:
            prompt.install(read_script(str(program)), str(program), facts)
        if sys.stdin.isatty():
            raise typer.Exit(prompt.run())
        prompt.run_script(sys.stdin.read())
