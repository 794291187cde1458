"""Hooks of mkdocs: the documents in the root become pages, and the navigation follows the folders.

Links between documents are written for the repository. On the site, a link to a document is a link to
its page. Any other link out of ``docs`` (to a test, to an example) becomes its text: the site lacks the file.
"""

import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
SECTIONS = {
    "How-to guides": "howto",
    "Reference": "reference",
    "Explanation": "explanation",
    "Design": "design",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Set the navigation: the front page, the tutorial, a section per folder, the pages of the root."""
    docs = ROOT / "docs"
    front = [{"Overview": "index.md"}, *(["tutorial.md"] if (docs / "tutorial.md").is_file() else [])]
    sections = [
        {title: [path.relative_to(docs).as_posix() for path in sorted((docs / folder).glob("*.md"))]}
        for title, folder in SECTIONS.items()
    ]
    config["nav"] = [*front, *sections, {"Project": list(ROOT_PAGES)}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def command_options() -> str:
    """The commands and their options as Markdown, by typer."""
    command = [sys.executable, "-m", "typer", "kpg.cli.commands", "utils", "docs", "--name", "kpg"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return re.sub(r"</?span[^>]*>", "", finished.stdout.partition("\n## ")[2])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at pages of the site, and leave the text of those that lead elsewhere."""
    source = page.file.src_uri
    if source == "reference/cli.md":
        markdown += "\n## " + command_options()
    folder = "" if source in ROOT_PAGES else posixpath.join("docs", posixpath.dirname(source))

    def site_link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if target.startswith("http"):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path not in ROOT_PAGES and not path.startswith("docs/"):
            return text
        path = posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(source) or ".")
        return f"[{text}]({path}{anchor})"

    for label in re.findall(r"^\[([^\]]+)\]: (?:\.\./)+tests/", markdown, re.M):
        markdown = re.sub(rf"^\[{label}\]: .*\n?", "", markdown, flags=re.M).replace(f"[{label}]", label)
    return LINK.sub(site_link, markdown)
