"""Check the documents: their sizes, their links, and the files and names of code that they mention."""

import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SIZES: Final = {"README.md": 6144, "CONTRIBUTING.md": 6144, "ARCHITECTURE.md": 15_360}
"""Bytes at most."""
DESIGN_SIZE: Final = 6144
"""Bytes at most of a page in docs/design."""
TOTAL_SIZE: Final = 204_800
"""Bytes at most of all documents together."""
FOLDERS: Final = (
    *(".ci", "benchmarks", "build_backend", "compiler", "datalog_examples", "docs", "grammars", "kpg"),
    *("runtime", "tests", "tpch"),
)
CODE: Final = ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/reference/performance.md")
"""Documents whose words between backticks are names of code."""
MADE_UP: Final = {"expr", "idx", "ARRANGEMENTS", "test_t44_..."}
"""Bad names, words of SQL and forms of names, which documents mention."""
FILE: Final = re.compile(r"[a-z_.][\w.-]*(/[\w.-]+)*\.(py|c|lark|sql|toml|md)|[a-z][\w.]*(/[\w.-]+)+/?")
LINK: Final = re.compile(r"\]\(([^)#\s]+)")
NAME: Final = re.compile(r"[A-Za-z_][\w.]*(\(\w*\))?")
FENCE: Final = re.compile(r"^```.*?^```$", re.M | re.S)


def documents() -> dict[str, str]:
    """Return the Markdown texts by path."""
    paths = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def tree() -> set[str]:
    """Return the files and folders, as paths from the root."""
    paths = (*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")))
    return {path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts}


def spans(text: str) -> list[str]:
    """Return the texts between backticks, outside fenced code."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def sizes(texts: dict[str, str]) -> Iterator[str]:
    """Each document is short, and all together are."""
    for path, text in texts.items():
        most = DESIGN_SIZE if path.startswith("docs/design/") else SIZES.get(path)
        if most is not None and len(text.encode()) > most:
            yield f"{path}: has {len(text.encode())} bytes, more than {most}"
    total = sum(len(text.encode()) for text in texts.values())
    if total > TOTAL_SIZE:
        yield f"the documents have {total} bytes together, more than {TOTAL_SIZE}"


def links(texts: dict[str, str]) -> Iterator[str]:
    """Links lead somewhere, and the front page links every page."""
    front = "docs/index.md"
    linked = {(ROOT / "docs" / target).resolve() for target in LINK.findall(texts[front])}
    for path, text in texts.items():
        for target in LINK.findall(text):
            if not target.startswith("http") and not (ROOT / path).parent.joinpath(target).exists():
                yield f"{path}: links {target}, which does not exist"
        if path not in (front, "README.md") and ROOT / path not in linked:
            yield f"{path}: is not linked from {front}"


def files(texts: dict[str, str], known: set[str]) -> Iterator[str]:
    """Files that documents mention exist: whole paths as written, a single name in some folder."""
    tops = {path.partition("/")[0] for path in known}
    names = {path.rpartition("/")[2] for path in known}
    for path, text in texts.items():
        for span in (one.rstrip("/") for one in spans(text) if FILE.fullmatch(one)):
            if "/" in span and span.partition("/")[0] in tops:
                found = span in known or span.removeprefix("kpg/") in known
            elif "/" in span and "." in span:
                found = any(one.endswith(f"/{span}") for one in known)
            else:
                found = "." not in span or span in names
            if not found:
                yield f"{path}: mentions {span}, which does not exist"


def code(texts: dict[str, str], known: set[str]) -> Iterator[str]:
    """Names of code that documents mention exist."""
    kinds = re.compile(r"\.(py|c|lark|toml)$|Makefile$")
    sources = [ROOT / path for path in sorted(known) if kinds.search(path)]
    words = {word for file in sources for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
    for path in CODE:
        for span in filter(NAME.fullmatch, spans(texts[path])):
            if span not in MADE_UP and not set(re.findall(r"\w+", span)) <= words:
                yield f"{path}: mentions {span}, which no source has"
            elif span.startswith(("compiler.", "runtime.")) and not resolves(f"kpg.{span}"):
                yield f"{path}: mentions {span}, which cannot be imported"


def reference(texts: dict[str, str]) -> Iterator[str]:
    """The objects of the Python reference exist, each once."""
    path = "docs/reference/python.md"
    names = re.findall(r"^::: (\S+)$", texts[path], re.M)
    for name in names:
        if not resolves(name):
            yield f"{path}: describes {name}, which cannot be imported"
    if not names or len(set(names)) < len(names):
        yield f"{path}: describes no object, or one twice"


def resolves(name: str) -> bool:
    """Whether a dotted name can be imported."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def main() -> int:
    """Print the violations; return 1 if there are any."""
    texts, known = documents(), tree()
    violations = [*sizes(texts), *links(texts), *files(texts, known), *code(texts, known)]
    violations += reference(texts)
    print("\n".join(violations), end="\n" if violations else "")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
