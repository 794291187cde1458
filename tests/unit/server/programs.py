"""Programs that tests of clients start: Postgres' own, and Java's driver."""

import shutil
import subprocess
import warnings
from pathlib import Path

from tests.installed import PYTHON
from tests.unit.server.conftest import Running
from tests.waiting import PATIENCE


def program(name: str) -> str:
    """One of Postgres' programs: this machine's, or that of the package."""
    return shutil.which(name) or packaged(name)


def script(name: str, *arguments: str, text: str = "") -> str:
    """What a program of the clients' Python environment, or one of ``scripts/`` run by it, prints."""
    folder = PYTHON / "bin"
    if name.endswith(".py"):
        program = Path(__file__).parent / "scripts" / name
        return run(str(folder / "python"), str(program), *arguments)
    return run(str(folder / name), *arguments, text=text)


def packaged(name: str) -> str:
    """One of the programs of the package: of the version that kpg says it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgserver
    return str(Path(pgserver.__file__).parent / "pginstall" / "bin" / name)


def run(*command: str, text: str = "") -> str:
    """What a program prints, its errors too."""
    finished = subprocess.run(
        command, capture_output=True, text=True, check=False, input=text, timeout=PATIENCE
    )
    return finished.stdout + finished.stderr


def psql(running: Running, *arguments: str, text: str = "") -> str:
    return run(program("psql"), "-X", "-A", "-t", running.dsn, *arguments, text=text)
