"""The documentation tells the truth: generated pages are fresh, commands and options exist, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docai.errors import ExitCode
from docai.export.formats import FORMATS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "samples" / "README.md"])


def commands() -> list[str]:
    """Every `docai ...` line in a code block of the README."""
    blocks = re.findall(r"(?ms)^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line.partition("#")[0] for kind, block in blocks if not kind for line in block.splitlines()]
    found = [re.match(r"(?:\.venv/bin/)?(docai .+)", part.strip()) for line in lines for part in line.split(" | ")]
    return [match[1] for match in found if match]


def test_the_command_line_page_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "gen_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("line", commands())
def test_options_of_the_readme_exist(line: str) -> None:
    _, command, *words = shlex.split(line)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    command = f"{command} {words[0]}" if command == "models" else command
    section = re.search(rf"(?ms)^## docai {command}$.*?(?=^## |\Z)", page)
    assert section, f"no command {command}"
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert f"`{word.partition('=')[0]}`" in section[0], word


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_python_examples_run(page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for code in re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8")):
        exec(code, names)
    assert "# Tide Logs Kept by Hand" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_pages_name_exist(page: Path) -> None:
    for file, name in re.findall(r"(tests/\w+\.py)::(\w+)", page.read_text(encoding="utf-8")):
        assert re.search(rf"(?m)^def {name}\(", (ROOT / file).read_text(encoding="utf-8")), f"{file} has no {name}"


def test_the_readme_shows_what_is_printed() -> None:
    from tests.test_samples import read

    excerpt = re.search(r"(?ms)^```markdown\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert excerpt
    assert " ".join(excerpt[1].split()) in " ".join(read("article").split())


def test_the_readme_shows_commands() -> None:
    assert len(commands()) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_exit_code_is_explained() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in ExitCode if f"| {code.value} |" not in text] == []


def test_every_format_is_explained() -> None:
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"| `{name}` |" not in text] == []
