"""``python contents.py SDIST WHEEL``: what a build must have in it, and what a wheel must be.

The folders of the checkout are links in ``kpg/``, which a build may lose without saying so.
"""

import sys
import tarfile
import zipfile
from pathlib import Path

EVERYWHERE = (
    "kpg/__init__.py",
    "kpg/py.typed",
    "kpg/api/database.py",
    "kpg/cli/__init__.py",
    "kpg/compiler/sql/parse/parser.py",
    "kpg/compiler/rules/magic/__init__.py",
    "kpg/runtime/worker/worker.py",
    "kpg/runtime/kernels/vm.py",
    "kpg/runtime/native/call.c",
    "kpg/runtime/native/support.c",
    "kpg/grammars/datalog.lark",
    "kpg/tpch/job.py",
    "kpg/tpch/queries/q01.sql",
    "kpg/server/web/page/index.html",
    "kpg/server/web/page/page.css",
    "kpg/server/web/page/main.js",
)
COMPILED = ("kpg/runtime/native/_call.", "kpg/runtime/native/shipped/kernels.json")


def main(sdist: str, wheel: str) -> None:
    """Exit with what is missing."""
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as zipped:
        built = set(zipped.namelist())
    checkout = {str(path.relative_to(".")) for path in Path("kpg").rglob("*.py")}
    for folder in ("compiler", "runtime", "grammars", "tpch"):
        checkout |= {f"kpg/{path}" for path in Path(folder).rglob("*.py")}
    checkout |= {str(path) for path in Path("kpg/server/web/page").iterdir()}
    missing = [f"sdist: {name}" for name in sorted({*EVERYWHERE, *checkout, "setup.py"} - source)]
    missing += [f"wheel: {name}" for name in sorted({*EVERYWHERE, *checkout} - built)]
    missing += [f"wheel: {name}" for name in COMPILED if not any(file.startswith(name) for file in built)]
    if not any(name.startswith("kpg/runtime/native/shipped/") and name.endswith(".so") for name in built):
        missing.append("wheel: compiled kernels")
    if "none-any" in wheel:
        missing.append("wheel: a platform in its name")
    if missing:
        sys.exit("missing in the build:\n" + "\n".join(missing))
    print(f"{Path(sdist).name}: {len(source)} files; {Path(wheel).name}: {len(built)} files")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
