"""The scripts of ``make lint`` find the violations that they are for."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"lint_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LAYOUT, PROSE, DOCUMENTS = script("layout"), script("prose"), script("documents")
CLASSES = script("classes")


def test_a_module_needs_a_docstring_and_a_package() -> None:
    texts = {"kpg/a/b.py": "x = 1\n"}
    assert list(LAYOUT.docstrings(texts)) == ["kpg/a/b.py: has no docstring"]
    assert list(LAYOUT.packages(texts)) == ["kpg/a: has no __init__.py"]


def test_a_folder_has_few_modules() -> None:
    texts = dict.fromkeys(["kpg/a/__init__.py", *(f"kpg/a/m{number}.py" for number in range(27))], "")
    assert list(LAYOUT.packages(texts)) == ["kpg/a: has 28 modules, more than 27"]


def test_few_modules_are_named_by_participles() -> None:
    texts = dict.fromkeys([f"kpg/{letter}kept/kept.py" for letter in "abcdefghij"], "")
    (violation,) = LAYOUT.names(texts)
    assert violation.startswith("more than 9 modules are named by participles: kpg/akept/kept.py, ")


def test_a_package_is_imported_in_its_folder_only() -> None:
    texts = {"compiler/sql/a.py": "import sqlglot\n", "kpg/a.py": "def f():\n    from sqlglot import exp\n"}
    assert list(LAYOUT.doors(texts)) == ["kpg/a.py: imports sqlglot, which only compiler/sql/ may"]


def test_dataclasses_are_those_of_the_project() -> None:
    (violation,) = LAYOUT.dataclasses({"kpg/a.py": "from dataclasses import dataclass, field\n"})
    assert violation.startswith("kpg/a.py: imports dataclass")
    assert list(LAYOUT.dataclasses({"kpg/a.py": "from dataclasses import field\n"})) == []


def test_classes_with_state_are_two_deep() -> None:
    state = "def f(self):\n        self.x = 1"
    CLASSES.add_module("kpg/a.py", f"class A:\n    {state}\nclass I: pass\nclass B(A, I): pass\n")
    CLASSES.add_module(
        "kpg/b.py",
        f"import kpg.a as m\nfrom kpg.a import B\nclass C(m.B):\n    {state}\nclass D(C, B): y = 2\n",
    )
    CLASSES.add_module(
        "runtime/c.py", f"from kpg.b import D\nclass E(D):\n    {state}\nclass X(ValueError): pass\n"
    )
    assert CLASSES.errors() == ["kpg.runtime.c.E: 3 classes deep; own what it inherits"]


@pytest.mark.parametrize(
    ("text", "avoided"),
    [
        ("What is kept.", "'What'"),
        ("A table of so many rows.", "'so many'"),
        ("Nobody reads the rows.", "'Nobody'"),
        ("The rows are what it was.", "'are what'"),
        ("The rows of a table.", ""),
        ("What does a view cost?", ""),
        ("The function `so many` of ``lest``.", ""),
        ("```python\nnobody()\n# lest\n```\n", ""),
    ],
)
def test_constructions_are_avoided(text: str, avoided: str) -> None:
    found = list(PROSE.check("documents", [("a.md", text)]))
    assert len(found) == bool(avoided)
    assert all(violation.startswith(f"a.md: avoid {avoided};") for violation in found)


def test_sentences_are_short() -> None:
    sentence = "A row " * 12 + "is read. "
    assert list(PROSE.check("documents", [("a.md", sentence + "It is short. " * 20)])) == []
    assert list(PROSE.check("documents", [("a.md", sentence)])) == [
        "documents: 1 of 1 sentences have more than 25 words",
        "documents: the median sentence has more than 16 words",
    ]
    first, *_ = PROSE.check("documents", [("a.md", "A row " * 23)])
    assert first.startswith("a.md: a sentence of 46 words: A row")


def test_links_and_names_of_documents_exist() -> None:
    texts = {"docs/index.md": "[a](nowhere.md)", "docs/b.md": "See `kpg/nothing.py` and `nothing.py`."}
    assert list(DOCUMENTS.links(texts)) == [
        "docs/index.md: links nowhere.md, which does not exist",
        "docs/b.md: is not linked from docs/index.md",
    ]
    assert list(DOCUMENTS.files(texts, {"kpg", "kpg/some.py"})) == [
        "docs/b.md: mentions kpg/nothing.py, which does not exist",
        "docs/b.md: mentions nothing.py, which does not exist",
    ]


def test_documents_are_short() -> None:
    assert list(DOCUMENTS.sizes({"README.md": "x" * 7000, "docs/a.md": "x" * 198_000})) == [
        "README.md: has 7000 bytes, more than 6144",
        "the documents have 205000 bytes together, more than 204800",
    ]
