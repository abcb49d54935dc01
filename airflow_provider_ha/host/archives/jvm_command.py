"""Command of Spark's JVM as spark-submit would start it, and the form of its class path that an archive needs.

spark-submit is two shell scripts and a small JVM that prints the command of the second JVM. The last script replaces
itself by that command. An exported function takes the place of bash's ``exec`` there: it prints the command and its
environment, and lets every other ``exec`` pass. So everything that the scripts of an installation read counts:
``spark-env.sh``, ``spark-defaults.conf``, variables. The request names a script that does not exist. Where the
function is not taken over, Spark refuses that script, and no driver was started.

The answer is not kept for the next start: ``spark-env.sh`` may compute another one each time. Instead the small JVM
finds its classes at once (:func:`_launcher_option`), and not behind the jars of Spark.

The JVM accepts an archive only if the class path begins with the jars of the archive, and it creates none if a folder
with files comes before a jar. spark-submit puts the conf folder first. Behind the jars it has the same effect, as long
as no jar has a file that the folder has, too: :func:`hidden_files`.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError


MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"
NO_SCRIPT = "/nonexistent/spark-ha-request.py"
_ANSWER_SECONDS = 60.0
_MARK = "spark-ha command of the JVM:"
# printf and env are not exec: everything else that the scripts replace themselves by is passed on.
_EXEC = f"""() {{
  for word in "$@"; do
    if [ "$word" = -cp ]; then
      unset -f exec
      printf '%s\\0' '{_MARK}' "$@" '{_MARK}'
      env -0
      exit 0
    fi
  done
  builtin exec "$@"
}}"""
_FUNCTION = "BASH_FUNC_exec%%"
_OF_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", _FUNCTION})
_LAUNCHER = "SPARK_LAUNCHER_OPTS"
_UNQUOTED = re.compile(r"[\s*?\[]")
_CONTRADICTIONS = re.compile(
    r"SharedArchiveFile|SharedClassListFile|ArchiveClassesAtExit|AOTCache|AOTMode|-Xshare|-javaagent|-agentpath|-agentlib"
    r"|--patch-module|--upgrade-module-path|--limit-modules|-XX:-UseCompressed|UseZGC|ObjectAlignmentInBytes"
    r"|-Xbootclasspath"
)
_JVM_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_HEAP = re.compile(r"-Xmx(\d+)([kKmMgGtT]?)")
_BYTES = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
LARGEST_HEAP = 32 << 30  # bytes: from here on references have another size, which an archive records


@dataclass(frozen=True, slots=True)
class JvmCommand:
    """The command of a JVM.

    :param words: Program and arguments.
    :param environment: Its complete environment.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def java(self) -> Path:
        """The program, which ``env`` with variables may precede."""
        return Path(next(word for word in self.words if word.rpartition("/")[2] == "java"))

    @property
    def class_path(self) -> tuple[str, ...]:
        """The entries of the class path, as written."""
        return tuple(self.words[self.words.index("-cp") + 1].split(":"))

    def with_class_path(self, entries: Iterable[str], options: Sequence[str]) -> JvmCommand:
        """Return the command with another class path and more options of the JVM."""
        at = self.words.index("-cp")
        words = (*self.words[:at], *options, "-cp", ":".join(entries), *self.words[at + 2 :])
        return JvmCommand(words, self.environment)

    def with_script(self, script: str) -> JvmCommand:
        """Return the command with *script* in the place of :data:`NO_SCRIPT`."""
        return JvmCommand(tuple(script if word == NO_SCRIPT else word for word in self.words), self.environment)


def request_command(spark_submit: Sequence[str], environment: Mapping[str, str]) -> JvmCommand:
    """Return the command of the JVM that a call of spark-submit would start. Starts no driver.

    :param spark_submit: Program and arguments, with :data:`NO_SCRIPT` as its script.
    :raises ConfigurationError: The installation is not one of Spark's scripts, or they failed.
    """
    submit = Path(spark_submit[0])
    if NO_SCRIPT not in spark_submit or not all(
        _is_bash(submit.with_name(name)) for name in (submit.name, "spark-class")
    ):
        raise ConfigurationError(f"{submit} is not a script of Spark, so the command of its JVM cannot be requested")
    quick = _launcher_option(submit.parents[1] / "jars")
    try:
        answer = subprocess.run(
            list(spark_submit),
            env={**environment, _FUNCTION: _EXEC, _LAUNCHER: environment.get(_LAUNCHER, "") + quick},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(f"the command of Spark's JVM could not be requested: {error}") from error
    parts = answer.stdout.decode(errors="surrogateescape").split(f"{_MARK}\0")
    if len(parts) != 3:  # noqa: PLR2004  # before the mark, the command, the environment
        last = (answer.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise ConfigurationError(f"the command of Spark's JVM is unknown: {last}")
    words = tuple(word for word in parts[1].split("\0") if word)
    if "-cp" not in words or MAIN_CLASS not in words or not any(word.rpartition("/")[2] == "java" for word in words):
        raise ConfigurationError("the command of Spark's JVM has an unknown form")
    values = dict(item.partition("=")[::2] for item in parts[2].split("\0") if "=" in item)
    values[_LAUNCHER] = values.get(_LAUNCHER, "").replace(quick, "")
    unset = _OF_SHELL | (set() if values[_LAUNCHER] or _LAUNCHER in environment else {_LAUNCHER})
    return JvmCommand(words, {name: value for name, value in values.items() if name not in unset})


def _launcher_option(jars: Path) -> str:
    """Return an option for the JVM that prints the command: the jar of its classes comes first. Empty if unknown.

    That JVM has all jars of Spark on its class path, and would open most of them in search of its first class. The jar
    needs no other one.
    """
    jar = next(jars.glob("spark-launcher_*.jar"), None)
    # The scripts split the variable at blanks, and expand patterns in it.
    return "" if jar is None or _UNQUOTED.search(str(jar)) else f" -Xbootclasspath/a:{jar}"


def _is_bash(script: Path) -> bool:
    try:
        with script.open("rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"bash" in first


@dataclass(frozen=True, slots=True)
class ArchivedClassPath:
    """The class path of a command, in the order that an archive needs.

    :param jars: Files, with patterns resolved, in the order of the command.
    :param folders: Folders, behind the jars.
    :param conf: The conf folder among them; ``None`` if it does not exist.
    """

    jars: tuple[Path, ...]
    folders: tuple[str, ...]
    conf: Path | None

    @property
    def entries(self) -> tuple[str, ...]:
        """All entries."""
        return (*map(str, self.jars), *self.folders)


def archived_class_path(command: JvmCommand) -> ArchivedClassPath:
    """Return the class path with the conf folder behind the jars.

    :raises ConfigurationError: Another folder precedes a jar: its classes would lose their precedence.
    """
    conf = Path(command.environment.get("SPARK_CONF_DIR", "")).absolute()
    jars, folders, before = list[Path](), list[str](), list[str]()
    for entry in command.class_path:
        found = _jars_of(entry)
        if not found:
            folders.append(entry)
            continue
        jars += found
        before += [folder for folder in folders if folder not in before]
    foreign = [folder for folder in before if Path(folder).absolute() != conf and _has_files(Path(folder))]
    if foreign:
        raise ConfigurationError(f"the folder {foreign[0]} of the class path precedes its jars")
    once = dict.fromkeys(jars)  # Java 21 refuses an archive if the class path has a jar twice, as Spark's has
    return ArchivedClassPath(tuple(once), tuple(folders), conf if conf.is_dir() else None)


def _jars_of(entry: str) -> list[Path]:
    """Return the jars of an entry; none for a folder. A pattern is sorted: the JVM takes the order of the disk."""
    if entry.endswith("/*"):
        return sorted(path for path in Path(entry[:-2]).glob("*") if path.suffix.lower() == ".jar")
    return [Path(entry)] if Path(entry).is_file() else []


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def hidden_files(conf: Path | None, resources: Collection[str]) -> list[str]:
    """Return the entries of the conf folder that a jar in front of it would hide, sorted.

    :param resources: Result of :func:`resources_of`.
    """
    if conf is None:
        return []
    names = (f"{entry.name}/" if entry.is_dir() else entry.name for entry in conf.iterdir())
    return sorted(set(names) & set(resources))


def resources_of(jars: Iterable[Path]) -> list[str]:
    """Return the first parts of the names of all files in jars that are no classes and no metadata, sorted.

    A folder ends with a slash: whether a file in a subfolder of the conf folder would be hidden is not looked into.

    :raises ConfigurationError: A jar cannot be read.
    """
    found = set[str]()
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as opened:
                names = opened.namelist()
        except (OSError, zipfile.BadZipFile) as error:
            raise ConfigurationError(f"the jar {jar} cannot be read: {error}") from error
        files = (name for name in names if not name.endswith((".class", "/")))
        found.update("".join(name.partition("/")[:2]) for name in files)
    return sorted(found - {"META-INF/"})


def contradiction(command: JvmCommand) -> str:
    """Return why this JVM cannot use an archive of ours; empty if it can. Pure."""
    options = [*command.words, *(command.environment.get(name, "") for name in _JVM_VARIABLES)]
    for text in options:
        if (found := _CONTRADICTIONS.search(text)) is not None:
            return f"the JVM has the option {found.group()}"
    heaps = [_HEAP.fullmatch(word) for word in command.words]
    sizes = [int(heap[1]) << _BYTES[heap[2].lower()] for heap in heaps if heap is not None]
    if sizes and sizes[-1] >= LARGEST_HEAP:
        return "the heap has 32 GiB or more"
    return ""


def archive_key(command: JvmCommand, jars: Sequence[Path]) -> str:
    """Return the key of the archives that fit: the JVM with its own archives, on which they build, and the jars.

    :raises ConfigurationError: The JVM or a jar is missing, or Java has no archive.
    """
    library = command.java.resolve().parents[1] / "lib" / "server" / "libjvm.so"
    own = sorted(library.parent.glob("classes*.jsa"))
    try:
        parts = [[str(path), *_identity(path)] for path in (library, *own, *jars)]
    except OSError as error:
        raise ConfigurationError(f"a part of the class path cannot be read: {error}") from error
    if not own:
        raise ConfigurationError(f"the Java in {library.parents[2]} has no archive of its classes (java -Xshare:dump)")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
