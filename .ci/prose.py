"""Check the prose of documents and docstrings: the length of sentences, and words to avoid.

Code, tables and headings do not count, and a name of code is one word. Shares and medians are those of the
documents together, and of the docstrings together.
"""

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("compiler", "grammars", "kpg", "runtime", "tpch")
MOST_WORDS: Final = 45
"""Of one sentence. Lists are sentences too, hence not 25."""
LONG: Final = 25
"""A sentence of more words wants to be two."""
MOST_LONG: Final = 0.06
"""Part of the sentences that may be long nevertheless."""
MEDIAN: Final = 16
AVOID: Final = {
    r"\bso (?:many|much)\b": "the number",
    r"\bno others\b": "only",
    r"\bonce and for all\b": "once",
    r"\bfor good\b": "permanently",
    r"\bby turns\b": "alternately",
    r"\b(?:is|are|was|were|be) told\b": "receives, or the name of the message",
    r"\bhave (?:an?|the) \w+ be\b": "the verb",
    r"\b(?:every|no|some)body\b": "the actor",
    r"\blest\b": "so that ... not",
    r"\bfaces?\b": "client API, session layer",
    r"^What\b(?! .*\?$)": "a noun",
    r"\b(?:is|are|was|were) what\b": "a noun",
    r"\bof what\b": "a noun",
}
"""Constructions that take a second reading, and what to write instead."""
KERNELS: Final = "runtime/kernels/"
"""Left out: the keys of compiled kernels depend on these texts, and a change compiles them all again."""
NO_PROSE: Final = re.compile(
    r"^```.*?^```$|^=+ +=.*^=+ +=[^\n]*$|^ *(?:\||#|>>>|\.\.\. )[^\n]*$", re.M | re.S
)
"""Code, tables and headings."""
SENTENCE: Final = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`:*\"'(])|\n\s*\n|\n\s*(?:[*-]|\d+\.)\s+")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, with names of code as one word."""
    text = NO_PROSE.sub("\n", text)
    text = re.sub(r"``[^`]+``|`[^`\n]+`", "`name`", text)
    for part in SENTENCE.split(text):
        if part.strip():
            yield " ".join(part.split())


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines and texts of docstrings, those of constants and fields too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(ast.Constant(str(text))):
                        yield statement.lineno, text


def texts() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the documents and the docstrings, each with its place."""
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    documents = [(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")) for page in pages]
    found = []
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(KERNELS):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [(f"{name}:{line}", text) for line, text in docstrings(tree)]
    return documents, found


def check(kind: str, placed: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the violations of texts of one kind."""
    avoid = re.compile("|".join(f"(?P<w{i}>{pattern})" for i, pattern in enumerate(AVOID)), re.I)
    instead, lengths = list(AVOID.values()), []
    for place, text in placed:
        for sentence in sentences(text):
            words = len(sentence.split())
            lengths.append(words)
            if words > MOST_WORDS:
                yield f"{place}: a sentence of {words} words: {sentence[:60]}..."
            if found := avoid.search(sentence):
                index = int((found.lastgroup or "w0")[1:])
                yield f"{place}: avoid {found[0]!r}; write {instead[index]}: {sentence[:80]}"
    long = sum(words > LONG for words in lengths)
    if long > MOST_LONG * len(lengths):
        yield f"{kind}: {long} of {len(lengths)} sentences have more than {LONG} words"
    if lengths and statistics.median(lengths) > MEDIAN:
        yield f"{kind}: the median sentence has more than {MEDIAN} words"


def main() -> int:
    """Print the violations; return 1 if there are any."""
    documents, docs = texts()
    violations = [*check("documents", documents), *check("docstrings", docs)]
    print("\n".join(violations), end="\n" if violations else "")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
