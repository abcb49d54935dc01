"""A driver's JVM that is started by its own command sees what it sees under spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_ha.host.archives.jvm_command import (
    NO_SCRIPT,
    archived_class_path,
    request_command,
)
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home


pytestmark = pytest.mark.timeout(300)
SPARK = find_spark_home(None)
RESOURCES = (
    "log4j2.properties",
    "core-site.xml",
    "hive-site.xml",
    "metrics.properties",
    "own/Extra.txt",
    "hdfs-site.xml",
)
OF_THE_MOMENT = {"spark.app.submitTime"}
OF_SHELL = {"_", "SHLVL", "PWD", "OLDPWD"}
VIEW = """
import java.util.*;

public class View {
  static String quoted(String text) {
    return "\\"" + text.replace("\\\\", "\\\\\\\\").replace("\\"", "\\\\\\"").replace("\\n", "\\\\n") + "\\"";
  }

  static String object(Map<String, String> map) {
    StringBuilder text = new StringBuilder("{");
    for (Map.Entry<String, String> each : new TreeMap<>(map).entrySet()) {
      text.append(text.length() > 1 ? "," : "");
      text.append(quoted(each.getKey())).append(":").append(quoted(each.getValue()));
    }
    return text.append("}").toString();
  }

  public static void main(String[] names) {
    Map<String, String> properties = new HashMap<>(), resources = new HashMap<>();
    for (String name : System.getProperties().stringPropertyNames()) properties.put(name, System.getProperty(name));
    for (String name : names) {
      Object found = ClassLoader.getSystemResource(name);
      resources.put(name, found == null ? "" : found.toString());
    }
    System.out.println("VIEW{\\"properties\\":" + object(properties) + ",\\"environment\\":" + object(System.getenv())
        + ",\\"resources\\":" + object(resources) + "}");
  }
}
"""


@dataclass
class View:
    """What a JVM sees.

    :param class_path: Its entries.
    """

    properties: dict[str, str]
    environment: dict[str, str]
    resources: dict[str, str]
    class_path: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, words: list[str] | tuple[str, ...], environment: Mapping[str, str]) -> View:
        """Run a command that ends with the program, and return what it saw."""
        done = subprocess.run(words, env=dict(environment), capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("VIEW{")]
        assert len(lines) == 1, done.stdout + done.stderr
        view = cls(**json.loads(lines[0].removeprefix("VIEW")))
        for name in OF_SHELL:
            view.environment.pop(name, None)
        for name in OF_THE_MOMENT:
            view.properties.pop(name, None)
        view.class_path = set(view.properties.pop("java.class.path").split(":"))
        return view


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar with the program."""
    folder = tmp_path_factory.mktemp("view")
    (folder / "View.java").write_text(VIEW)
    subprocess.run(["javac", "View.java"], cwd=folder, check=True)
    subprocess.run(["jar", "cf", "view.jar", "View.class"], cwd=folder, check=True)
    return folder / "view.jar"


@dataclass
class Site:
    """An installation and its conf.

    :param variables: Of the environment.
    :param conf: Of the properties file.
    """

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        """Write a file below the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def call(self, script: str) -> tuple[list[str], dict[str, str]]:
        """Return a call of spark-submit, and its environment."""
        lines = {"spark.master": "local[1]", "spark.driver.memory": "512m"} | self.conf
        properties = self.write("job.properties", "".join(f"{key} {value}\n" for key, value in lines.items()))
        options = ["--load-spark-defaults", "--properties-file", str(properties), "--class", "View"]
        variables = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"} | self.variables
        words = [f"{variables['SPARK_HOME']}/bin/spark-submit", *options, script, *RESOURCES]
        return words, {**os.environ} | variables


Setup = Callable[[Site], None]


def nothing(site: Site) -> None:
    """The environment of the tests."""


def conf_folder(site: Site) -> None:
    for name in RESOURCES[:4]:
        site.write(f"conf/{name}", "<configuration/>" if name.endswith("xml") else "")
    site.write("conf/spark-defaults.conf", "spark.driver.extraJavaOptions -Dof.defaults=1\n")
    site.variables["SPARK_CONF_DIR"] = str(site.folder / "conf")


def conf_of_distribution(site: Site) -> None:
    home = site.folder / "spark"
    home.mkdir()
    for each in SPARK.iterdir():
        if each.name != "conf":
            (home / each.name).symlink_to(each)
    for name in RESOURCES[:4]:
        site.write(f"spark/conf/{name}", "<configuration/>" if name.endswith("xml") else "")
    site.write("spark/conf/spark-defaults.conf", "spark.driver.extraJavaOptions -Dof.defaults=1\n")
    site.variables["SPARK_HOME"] = str(home)


def packed_python(site: Site) -> None:
    site.conf["spark.archives"] = f"{site.write('python.tar.gz', '')}#environment"
    site.variables["PYSPARK_DRIVER_PYTHON"] = "python3"
    site.variables["PYSPARK_PYTHON"] = "./environment/bin/python"


def standalone(site: Site) -> None:
    site.conf["spark.master"] = "spark://127.0.0.1:7077,127.0.0.1:7078"
    site.variables["SPARK_LOCAL_DIRS"] = str(site.folder / "scratch")


def spark_env(site: Site) -> None:
    lines = (
        "OF_SCRIPT='two words'",
        "export SPARK_DIST_CLASSPATH=/opt/more.jar",
        'SPARK_LAUNCHER_OPTS="$SPARK_LAUNCHER_OPTS -Dof.script=1"',
    )
    site.write("conf/spark-env.sh", "".join(f"{line}\n" for line in lines))
    site.variables["SPARK_CONF_DIR"] = str(site.folder / "conf")


def hadoop_conf(site: Site) -> None:
    site.write("hadoop/core-site.xml", "<configuration/>")
    site.write("hadoop/hdfs-site.xml", "<configuration/>")
    site.variables["HADOOP_CONF_DIR"] = str(site.folder / "hadoop")


def dist_class_path(site: Site) -> None:
    site.write("dist/hive-site.xml", "<configuration/>")
    site.variables["SPARK_DIST_CLASSPATH"] = f"{site.folder}/dist:{site.folder}/none/*"


def extra_class_path(site: Site) -> None:
    jar = site.folder / "extra.jar"
    site.write("own/Extra.txt", "extra")
    subprocess.run(["jar", "cf", str(jar), "own/Extra.txt"], cwd=site.folder, check=True)
    site.conf["spark.driver.extraClassPath"] = str(jar)


def java_options(site: Site) -> None:
    site.conf["spark.driver.extraJavaOptions"] = "-Da='two words' -Db=\\\"quoted\\\" -XX:+UseSerialGC"
    site.variables["SPARK_SUBMIT_OPTS"] = "-Dof.submit=1"
    site.variables["SPARK_LAUNCHER_OPTS"] = "-Dof.launcher=1"


def library_path(site: Site) -> None:
    site.conf["spark.driver.extraLibraryPath"] = "/opt/native libraries"


def java_home(site: Site) -> None:
    site.variables["JAVA_HOME"] = str(Path(os.path.realpath("/usr/bin/java")).parents[1])


def together(site: Site) -> None:
    """A site with several of them."""
    for setup in (conf_folder, dist_class_path, java_options):
        setup(site)


SITES: list[Setup] = [
    together,
    nothing,
    conf_folder,
    conf_of_distribution,
    packed_python,
    standalone,
    spark_env,
    hadoop_conf,
    dist_class_path,
    extra_class_path,
    java_options,
    library_path,
    java_home,
]


@pytest.mark.parametrize(
    "setup",
    [pytest.param(each, id=each.__name__, marks=[] if each is together else [pytest.mark.long]) for each in SITES],
)
def test_a_jvm_sees_the_same_by_its_own_command_and_behind_an_archive(
    setup: Setup, program: Path, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    setup(site)
    words, environment = site.call(str(program))
    asked, _ = site.call(NO_SCRIPT)

    command = request_command(asked, environment).with_script(str(program))
    archived = command.with_class_path(archived_class_path(command).entries, [])
    under_submit = View.of(words, environment)

    assert View.of(command.words, command.environment) == under_submit
    assert View.of(archived.words, archived.environment) == under_submit
