"""Options of ``job submit`` and ``restore``, derived from the models of their requests, and converted to a spec."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.spark.places import is_hdfs, is_s3, output_place
from airflow_provider_ha.cli.console import option_word
from airflow_provider_ha.cli.job_requests import operation_id
from airflow_provider_ha.cli.savepoint_target import assigned, before_a_place, of_query, path_of
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declaration import Option, options_of, read
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LATEST
from airflow_provider_ha.redaction import secret_values


_LINE = re.compile(r"\s*(?P<key>[^\s:=]+)(?:\s*[:=]\s*|\s+)(?P<value>.*?)\s*")


def read_spark_properties(path: Path | None) -> dict[str, str]:
    """Return the properties in a file in the form of ``spark-defaults.conf``; empty without a file.

    Java's escapes and continued lines are refused, because this command would read their values differently from Spark.

    :raises ConfigurationError: It cannot be read, or a line is not ``key value``; the message has no values.
    """
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(
            f"the properties file {str(path)!r} cannot be read: {reason}", next_step="Name another file"
        ) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\\" in line:
            raise ConfigurationError(
                f"line {number} of the properties file {str(path)!r} is not 'key value' or 'key=value' on one line",
                next_step="Correct it; a backslash is not read",
            )
        found[match["key"]] = match["value"]
    return found


def spark_conf(conf: Sequence[str], path: Path | None) -> dict[str, str]:
    """Return the conf of a job: ``--conf`` overrides the file, as for spark-submit.

    :raises ConfigurationError: A word or a line cannot be read.
    """
    return {**read_spark_properties(path), **assigned(conf, "--conf")}


def driver_environment(values: Iterable[str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a driver: ``NAME=VALUE``, or ``NAME`` for the command's own value.

    :raises ConfigurationError: The command has no such variable, or a name is repeated.
    """
    environment = os.environ if environment is None else environment
    values = list(values)
    for name in (value for value in values if "=" not in value):
        if name not in environment:
            raise ConfigurationError(
                f"--env {name}: this command has no such variable", next_step=f"Export it, or write {name}=VALUE"
            )
    return assigned([value if "=" in value else f"{value}={environment[value]}" for value in values], "--env")


def visible_secrets(conf: Sequence[str], env: Sequence[str]) -> list[str]:
    """Return the names on a command line whose values look like secrets, for a warning."""
    pairs = [value.partition("=") for value in (*conf, *env) if "=" in value]
    return [name for name, _, value in pairs if secret_values({name: value})]


_PLACE = re.compile(r"[./]|\w[\w+.-]*:/")  # beginning of a path or a URI


def _started(words: Sequence[str] | None) -> tuple[str, tuple[str, ...]]:
    """Return the checkpoint of a job, or ``[QUERY=]PATH`` words, that ``--start-from`` names.

    :raises ConfigurationError: Its words contradict each other.
    """
    named = tuple(words or ())
    if not any("/" in word for word in named):
        if len(named) > 1:
            raise ConfigurationError(
                f"--start-from {' '.join(named)} names no directories",
                next_step="Write one word, or one [QUERY=]PATH for each query",
            )
        return (*named, LATEST)[0], ()
    if other := [word for word in named if "/" not in word]:
        raise ConfigurationError(
            f"--start-from {other[0]} names no directory, and another value does", next_step="Name only directories"
        )
    return LATEST, named


def adopted(
    adopt: Sequence[str], sinks: Sequence[str], source_job: str | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return query -> checkpoint directory, and query -> sink.

    :raises ConfigurationError: A word cannot be parsed, or contradicts another.
    """
    if adopt and source_job is not None:
        raise ConfigurationError(
            "--start-from names directories, and --source-job the checkpoints of a job",
            next_step="Leave one option out",
        )
    found: dict[str, str] = {}
    for value in adopt:
        name, text = _named(value)
        place = _place(text)
        if found.setdefault(name or place.rpartition("/")[2], place) != place:
            raise ConfigurationError(f"query {name!r} is named twice", next_step="Name each query once, as QUERY=PATH")
    return found, dict(_sink(value, list(found)) for value in sinks)


def _place(text: str) -> str:
    """Return a place that is independent of the working directory."""
    if is_s3(text) or is_hdfs(text):
        return output_place(text)
    return str((path_of(text) or Path(text)).resolve())


def _sink(value: str, queries: list[str]) -> tuple[str, str]:
    name, text = of_query(value, queries) or _named(value)
    if name is None and len(queries) != 1:
        raise ConfigurationError(
            f"sink {value!r} names no query", next_step="Write it as QUERY=PATH, of a directory that --start-from names"
        )
    return name or queries[0], text


def _named(value: str) -> tuple[str | None, str]:
    """Return name and rest of ``NAME=REST``; a path may contain an equals sign, and a name a slash."""
    if not _PLACE.match(value) and (named := before_a_place(value)) is not None:
        return named
    name, equals, rest = value.partition("=")
    return (name, rest) if equals and name and "/" not in name else (None, value)


_COMMAS = ("py_files", "files", "jars", "archives", "packages")  # lists that a word may hold, as for spark-submit


def accepted(words: Mapping[str, Any]) -> frozenset[Verdict]:
    """Return the verdicts with which a restore is carried out."""
    return frozenset({Verdict.SAFE, *(words["accept_verdicts"] or ())})


def request_of(words: Mapping[str, Any], job_id: str, request_id: str | None) -> RestoreRequest:
    """Return the request to a job.

    :param words: Option of the request -> its words; ``None`` for one that is left out.
    :raises ConfigurationError: The words do not fit a job, or each other.
    """
    start_from, places = _started(words["start_from"])
    directories, sinks = adopted(places, words["sinks"] or (), words["source_job"])
    given = {
        **words,
        **split_lists(words),
        "conf": spark_conf(words["conf"], None) if words["conf"] else None,
        "env": driver_environment(words["env"]) if words["env"] else None,
        "start_from": start_from,
        "sinks": sinks,
        "accept_verdicts": accepted(words),
        "kafka_bootstrap": by_query("--kafka-bootstrap", words["kafka_bootstrap"]),
    }
    return read(
        RestoreRequest,
        given,
        subject=f"the restore of job {job_id!r}",
        job_id=job_id,
        request_id=request_id or operation_id("restore"),
        adopt=directories,
    )


def split_lists(words: Mapping[str, Any]) -> dict[str, list[str] | None]:
    """Return the lists of files and packages, whose words may be separated by commas."""
    return {name: _split(words[name]) if words[name] else None for name in _COMMAS}


def by_query(option: str, given: Iterable[str] | None) -> Mapping[str, str]:
    """Return query -> value of a repeated ``QUERY=VALUE``.

    :raises ConfigurationError: A word has another form, or a query is repeated.
    """
    found: dict[str, str] = {}
    for each in given or ():
        query, separator, value = each.rpartition("=")  # of hosts and ports none holds one, and a name may
        if not separator or not query or not value:
            raise ConfigurationError(f"{option} {each!r} is no QUERY=VALUE", next_step="Name the query first")
        if query in found:
            raise ConfigurationError(f"{option} names query {query!r} twice", next_step="Separate hosts by commas")
        found[query] = value
    return found


def _split(values: Iterable[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def spec_of(
    words: Mapping[str, Any],
    target: ClusterTarget,
    *,
    request_id: str | None = None,
    properties_file: Path | None = None,
    spark_conn_id: str | None = None,
) -> JobSpec:
    """Return the spec of a job.

    :param words: Option of the spec -> its words; ``None`` for one that is left out.
    :param target: Knows the connections of Airflow, when there are any.
    :raises ConfigurationError: A word cannot be read, or words do not fit one another.
    """
    where = target.driver_place(spark_conn_id)
    engine_options = assigned(words["engine_options"] or [], "--engine-options")
    start_from, places = _started(words["start_from"])
    if words["sinks"] and not places:
        raise ConfigurationError(
            f"--start-from {start_from} names no directories",
            next_step="Remove --sinks: it applies only to directories",
        )
    directories, sinks = adopted(places, words["sinks"] or ())
    given = {
        **words,
        **split_lists(words),
        "conf": spark_conf(words["conf"] or [], properties_file),
        "env": driver_environment(words["env"] or []),
        **where.options(words["master"], words["engine"], engine_options),
        "kafka_bootstrap": by_query("--kafka-bootstrap", words["kafka_bootstrap"]),
        "start_from": directories or start_from,
        "sinks": sinks,
        "accept_verdicts": {Verdict.SAFE, *(words["accept_verdicts"] or ())},
    }
    subject = f"the submission of job {words['job_id']!r}"
    return read(JobSpec, given, subject=subject, request_id=request_id or operation_id("submit"))


_SINGLE = (int, float, bool)
# Options that a description may name.
_DESCRIBED = {*options_of(JobSpec), *options_of(RestoreRequest), "spark_conn_id"}


def takes(
    model: type[Any], only: Collection[str] | None = None, **arguments: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``words`` of a command by one parameter for each option of *model*.

    The command gets option -> value as ``words``; ``None`` for an option that is left out.

    :param only: The options that the command has; all without it.
    :param arguments: Positional arguments of the command, by the name of their option: annotation of the parameter.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = {name: each for name, each in inspect.signature(command).parameters.items() if name != "words"}
        options = {
            name: each
            for name, each in options_of(model).items()
            if not each.of_task and (only is None or name in only)
        }
        context, *rest = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]) for name, each in own.items()
        ]
        derived = [_parameter(each, arguments.get(name)) for name, each in options.items()]
        derived.sort(key=lambda each: each.name not in arguments)

        @wraps(command)
        def called(**given: Any) -> None:
            words = {name: given.pop(name) for name in options}
            command(words=words, **given)

        shown = [context, *derived, *rest]
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in shown}
        return called

    return decorate


def _parameter(option: Option, argument: Any) -> inspect.Parameter:
    """Return the parameter of a command for an option."""
    required = option.field.is_required()
    default = inspect.Parameter.empty if required else None
    annotation = argument if argument is not None else _annotation(option)
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _annotation(option: Option) -> Any:
    kind, word = _parameter_type(option.field.annotation), option_word(option.name)
    if kind is bool:
        word = f"{word}/--no-{word[2:]}"
    settings: dict[str, Any] = {"help": help_text(option)}
    for name, setting in (("group", "rich_help_panel"), ("metavar", "metavar")):
        if option.shown.get(name):
            settings[setting] = option.shown[name]
    return Annotated[kind if option.field.is_required() else kind | None, typer.Option(word, **settings)]


def help_text(option: Option) -> str:
    """Return the description of an option for a terminal, with its default."""
    text = option.shown.get("command") or option.field.description or ""
    for name in _DESCRIBED:
        text = text.replace(f"*{name}*", option_word(name))
    text = text.replace("``", "`").replace("[", "\\[")
    if option.field.is_required():
        return text
    default = option.default
    if "default" in text.lower() or default in (None, (), {}, ("SAFE",)) or isinstance(default, Enum):
        return text
    if isinstance(default, bool):
        default = "yes" if default else "no"
    return f"{text} Default: {default:g}." if isinstance(default, float) else f"{text} Default: {default}."


def _parameter_type(annotation: Any) -> Any:
    """Return the type of the parameter for the type of an option: one value, or a list of words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _parameter_type(parts[0])
    if isinstance(annotation, type) and issubclass(annotation, (*_SINGLE, Enum)):
        return annotation
    if origin in (tuple, frozenset) and isinstance(parts[0], type) and issubclass(parts[0], Enum):
        return list[parts[0]]  # type: ignore[valid-type]
    if origin in (tuple, frozenset, dict, Mapping, Sequence):
        return list[str]
    kinds = [_parameter_type(part) for part in parts if part is not NoneType]
    return next((kind for kind in kinds if kind is not str), str)
