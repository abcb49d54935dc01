"""What prose names exists: verbs, options and extras. And what a reader copies destroys nothing without a warning."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.main import get_command

from airflow_provider_ha import operators, sensors, triggers
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.declaration import options_of
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from tests.docs.blocks import blocks_of
from tests.docs.test_code_blocks import PAGES, ROOT, page_id
from tests.mutants.catalogue import read_toml


_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```\s*$", re.DOTALL | re.MULTILINE)
_EXTRAS = re.compile(r"airflow-provider-ha\[([a-z0-9,]+)\]|`\[([a-z0-9,]+)\]`")
# Options of other programs and of scripts that pages name, and parameters that are none of an operator.
_FOREIGN = frozenset(
    {
        "--quick",
        "--keys",
        "--api-token",
        "--password",
        "--db-password",
        "--init",
        "--pairs",
        "--airflow",
        "--slow-store",
        "--statsd",
    }
)
_OTHER_WORDS = frozenset({"lookupcache", "actimeo", "pyspark", "day", "password", "token"})
_OTHER_PROGRAMS = ("python -m ", "docker ")
_SECTIONS = frozenset({"core", "api"})  # of airflow.cfg


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    return _CODE.findall(prose(page))


@cache
def verbs() -> dict[str, set[str]]:
    """Return each command with its options."""
    found: dict[str, set[str]] = {}

    def walk(command: typer.core.TyperCommand, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        options = {word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)}
        found[" ".join(words)] = {word for word in options if word.startswith("-")} | {"--help"}

    walk(get_command(app), ())  # type: ignore[arg-type]  # a group of typer
    return found


def named_commands(page: Path) -> list[list[str]]:
    """Return the commands of ``spark-ha`` that prose names, as words: with the program, or a verb with an option."""
    first = {verb.split()[0] for verb in verbs() if verb}
    found = []
    for code in inline_code(page):
        said = re.sub("^(?:spark-ha|airflow ha) ", "", code)
        if said != code or (" --" in code and code.split()[0] in first):
            try:
                found.append(shlex.split(said))
            except ValueError:
                found.append(said.split())
    return found


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_that_prose_names_exist_with_their_options(page: Path) -> None:
    for words in named_commands(page):
        known = max((verb for verb in verbs() if words[: len(verb.split())] == verb.split()), key=len)
        said = " ".join(words)
        takes_verbs = any(verb.startswith(f"{known} ".lstrip()) for verb in verbs() if verb != known)
        more = words[len(known.split()) :]
        assert not (takes_verbs and more and re.fullmatch(r"[a-z-]+", more[0]) and not more[0].startswith("-")), said
        ours = more[: more.index("--")] if "--" in more else more
        options = {word.split("=")[0].rstrip("]") for word in ours if re.match(r"--[a-z]", word)}
        assert options <= verbs()[known] | verbs()[""], f"`spark-ha {said}`: {options - verbs()[known]}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_options_and_verbs_that_prose_names_alone_exist(page: Path) -> None:
    known = set().union(*verbs().values()) | _FOREIGN
    groups = {verb.split()[0] for verb in verbs() if " " in verb}
    for code in inline_code(page):
        words = code.split()
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)) <= known, code
        if len(words) > 1 and words[0] in groups and re.fullmatch("[a-z]+(-[a-z]+)*", words[1]):
            assert " ".join(words[:2]) in verbs(), code


@cache
def parameters() -> frozenset[str]:
    """Return the parameters of operators, sensors and triggers, the fields of a connection, and the job's options."""
    modules = [
        importlib.import_module(module.name)
        for package in (operators, sensors, triggers)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    classes = [each for thing in public if isinstance(thing, type) for each in thing.__mro__]
    taken = {name for each in classes for name in inspect.signature(each.__init__).parameters}  # type: ignore[misc]
    return frozenset({*taken, *options_of(JobSpec), *options_of(RestoreRequest), *HaConfig.model_fields})


@pytest.mark.airflow
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_parameters_that_prose_names_exist(page: Path) -> None:
    named = {match[1] for code in inline_code(page) if (match := re.match(r"([a-z_]+)=", code))}

    assert named <= parameters() | _OTHER_WORDS


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_extras_that_prose_names_exist(page: Path) -> None:
    project = read_toml(ROOT / "pyproject.toml")["project"]
    named = {
        extra for groups in _EXTRAS.findall(page.read_text(encoding="utf-8")) for extra in "".join(groups).split(",")
    }

    assert named - _SECTIONS <= set(project["optional-dependencies"])


@pytest.mark.parametrize("page", [page for page in PAGES if "*Test*" in prose(page)], ids=page_id)
def test_a_page_that_recommends_the_button_test_names_what_enables_it(page: Path) -> None:
    assert "test_connection" in prose(page)


def test_the_install_page_has_every_extra() -> None:
    project = read_toml(ROOT / "pyproject.toml")["project"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    table = page[page.index("| Extra | Brings") :].split("\n\n", 1)[0].splitlines()[2:]
    named = [extra for row in table for extra in _CODE.findall(row.split("|")[1])]

    assert sorted(named) == sorted(project["optional-dependencies"])


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install.md"])
def test_a_page_about_the_installation_says_that_no_index_has_the_package(page: str) -> None:
    assert "package is not on a package index yet" in (ROOT / page).read_text(encoding="utf-8")


# Commands that end or remove something, and the words of which one has to stand in the paragraph before the block.
_DESTROYS = {
    r"job stop\b": ("stop", "end"),
    r"job cancel\b": ("cancel", "ends"),
    r"delete job\b(?!.*--dry-run)": ("delete",),
    r"delete cluster\b(?!.*--dry-run)": ("delete",),
    r"delete savepoint\b(?!.*--dry-run)": ("delete",),
    r"delete checkpoint\b(?!.*--dry-run)": ("delete",),
    r"storage clean\b(?!.*--dry-run)": ("remov",),
    r"job move\b.*--abandon": ("abandon",),
    r"cluster rebuild\b(?!.*--dry-run)": ("rebuild", "writ"),
    r"acl repair\b(?!.*--dry-run)": ("repair", "protect"),
}
# Of other programs.
_REMOVES = re.compile(r"\brm -|\bdeleteall\b|\bairflow (?:dags delete|db reset|connections delete)|make clean")


def paragraph_before(page: Path, line: int) -> str:
    """Return the text between the block whose code begins at *line* and the heading or block before it."""
    lines = page.read_text(encoding="utf-8").splitlines()[: line - 2]
    begin = max((number for number, text in enumerate(lines) if text.startswith(("#", "```"))), default=-1)
    return " ".join(lines[begin + 1 :])


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_block_to_copy_destroys_nothing_without_a_sentence_before_it(page: Path) -> None:
    for block in blocks_of(page):
        for pattern, words in _DESTROYS.items():
            if block.language == "bash" and re.search(rf"(?:spark-ha|airflow ha) {pattern}", block.text):
                said = paragraph_before(page, block.line).lower()
                assert any(word in said for word in words), f"{page_id(page)}:{block.line}: {pattern}"
        if _REMOVES.search(block.text) and block.language in ("bash", "text"):
            assert "remov" in paragraph_before(page, block.line).lower(), f"{page_id(page)}:{block.line}"


_LOOKS = re.compile(r"^#+ (?:\d+\. )?(?:See|Look|Inspect|Read|Find|Check|Verify)\b")


def heading_before(page: Path, line: int) -> str:
    """Return the heading of the section with a line."""
    lines = page.read_text(encoding="utf-8").splitlines()[: line - 1]
    return next((text for text in reversed(lines) if text.startswith("#")), "")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_section_about_looking_has_no_block_that_ends_or_removes_anything(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "bash" and _LOOKS.match(heading_before(page, block.line)):
            found = [pattern for pattern in _DESTROYS if re.search(rf"spark-ha {pattern}", block.text)]
            assert not found, f"{page_id(page)}:{block.line}: {found}"


def options() -> list[tuple[str, Any]]:
    """Return each option of each command."""
    found: list[tuple[str, Any]] = []

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        found.extend((" ".join(words), each) for each in command.params if each.param_type_name == "option")

    walk(get_command(app), ())
    return found


def test_the_help_of_every_option_says_its_default() -> None:
    silent = [
        f"{verb} {option.opts[0]}"
        for verb, option in options()
        if not option.required and not option.is_flag and option.default in (None, (), [])
        if not re.search(r"(?i)\bdefault\b|without it|in place of|\[env: ", option.help or "")
    ]

    assert silent == []


def test_no_placeholder_of_an_option_is_a_type_of_python() -> None:
    """A flag has none."""
    context = typer.Context(get_command(app))
    ours = [(verb, option) for verb, option in options() if "completion" not in option.opts[0]]
    told = {f"{verb} {option.opts[0]}": option.display_type_rich(context) or "" for verb, option in ours}

    assert [name for name, placeholder in told.items() if re.search(r"<[^|]*>", placeholder)] == []


def test_nothing_of_a_help_text_is_lost_as_markup() -> None:
    """As a variable in brackets was."""
    helps = [(f"{verb} {option.opts[0]}", option.help or "") for verb, option in options()]

    assert [name for name, told in helps if Text.from_markup(told).plain != told.replace("\\[", "[")] == []


@pytest.mark.parametrize("name", sorted(HaOptions.model_fields))
def test_a_default_in_help_is_that_of_the_code(name: str) -> None:
    """Numbers and words alike."""
    default = HaOptions.model_fields[name].default
    helps = [
        option.help
        for verb, option in options()
        if verb == "job submit" and f"--{name.replace('_', '-')}" in option.opts and not option.is_flag
    ]

    for told in helps if default not in (None, {}, (), -1) else []:
        assert told.endswith(f"Default: {default:g}." if isinstance(default, float) else f"Default: {default}."), told
