"""What CONTRIBUTING.md promises about the code and the pages, held for every file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "config",
    "workspaces",
    "jobs",
    "provisioning",
    "alerts",
    "webhooks",
    "examples",
    "benchmarks",
    "tests",
)
LOCKS = tuple(sorted(path.stem for path in ROOT.glob("requirements*.in")))
LONGEST_FILE = 500
LONGEST_FUNCTION = 50
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
SOURCES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if "migrations" not in path.parts
]
TEMPLATES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.html"))]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
INLINE = re.compile(r"<style|<script(?![^>]*\bsrc=)|\sstyle\s*=|\son[a-z]+\s*=|javascript:", re.I)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_and_functions_stay_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions(path)}
    assert {f: length for f, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def after_commits(path: Path) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [ast.unparse(c.args[0]) for c in calls if ast.unparse(c.func).endswith("on_commit")]


def test_nothing_that_follows_a_commit_is_a_partial() -> None:
    """Where one raises, Django fails at saying its name, and the caller of the commit with it."""
    ours = [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "tests"]
    found = {(name(path), what) for path in ours for what in after_commits(path)}
    assert len(found) >= 5
    assert not [each for each in found if each[1].startswith(("partial(", "functools."))]


def test_no_module_has_a_vague_name() -> None:
    assert [name(path) for path in SOURCES if VAGUE & {path.stem, path.parent.name}] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_templates_have_no_inline_script_or_style(path: Path) -> None:
    assert INLINE.findall(path.read_text()) == []


def pins(file: str) -> set[str]:
    lines = (ROOT / file).read_text().splitlines()
    return {line.partition("==")[0] for line in lines if "==" in line}


def test_every_pin_has_its_reason() -> None:
    page = (ROOT / "docs/dependencies.md").read_text().partition("## Considered")[0]
    explained = set(re.findall(r"^\| ([a-z0-9\[\]-]+) \|", page, re.M)) - {"package"}
    assert explained == set().union(*(pins(f"{file}.in") for file in LOCKS))


@pytest.mark.parametrize("file", LOCKS)
def test_locks_are_up_to_date_and_hashed(file: str) -> None:
    lock = (ROOT / f"{file}.txt").read_text()
    entries = re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^\s;\\]+)([^\n]*\\)?$", lock, re.M)
    locked = {f"{package}=={version}" for package, version, _hashes in entries}
    wanted = {
        re.sub(r"\[.*\]", "", line)
        for line in (ROOT / f"{file}.in").read_text().splitlines()
        if "==" in line
    }
    assert wanted <= locked
    assert len(re.findall(r"^[a-z0-9].*\\$", lock, re.M)) == len(
        re.findall(r"^[a-z0-9]", lock, re.M)
    )


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                yield page, target


@pytest.mark.parametrize(("document", "target"), list(links()), ids=str)
def test_links_between_pages_lead_somewhere(document: Path, target: str) -> None:
    assert (document.parent / target).exists()


def test_commands_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {
        target for page in PAGES for target in re.findall(r"\bmake ([a-z]+)", page.read_text())
    }
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    assert {"demo", "test", "serve", "lint"} <= named
    assert named & {"demo", "test", "serve", "lint", "lock", "bench", "drill", "soak"} <= targets


def held() -> list[tuple[str, str]]:
    text = (ROOT / "docs/guarantees.md").read_text()
    return re.findall(r"`([\w/]+)::(\w+)`", text)


@pytest.mark.parametrize(("file", "test"), held())
def test_the_tests_that_hold_the_guarantees_exist(file: str, test: str) -> None:
    assert test in {function.name for function in functions(ROOT / "tests" / f"{file}.py")}


def test_every_guarantee_has_a_hole_and_a_test() -> None:
    _start, *guarantees = (ROOT / "docs/guarantees.md").read_text().split("\n## ")
    assert len(guarantees) == 9
    for guarantee in guarantees:
        assert "*Hole:*" in guarantee
        assert "::" in guarantee
