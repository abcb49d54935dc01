"""The file system behind the component is tried before anything of the job changes. The JVM is stood in for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha import __version__
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.driver.jvm.file_system import SIMPLE_CREDENTIALS, check_names, prepare_file_system, s3a_conf
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError


ROOT = "s3a://bucket/live/prod"
ENDPOINT = "spark.hadoop.fs.s3a.bucket.bucket.endpoint"


class Jvm:
    """A JVM with a release of Hadoop, and with S3A or not."""

    def __init__(self, hadoop: str = "3.4.2", failure: Exception | None = None, given: tuple[str, ...] = ()) -> None:
        self.properties = dict.fromkeys(given, "http://of-the-user:9000")
        self.opened: list[str] = []
        self._failure = failure
        system = SimpleNamespace(getProperty=self.properties.get, setProperty=self.properties.__setitem__)
        self.java = SimpleNamespace(lang=SimpleNamespace(System=system), net=SimpleNamespace(URI=str))
        self.io = SimpleNamespace(
            github=SimpleNamespace(sparkha=SimpleNamespace(Component=SimpleNamespace(version=lambda: __version__)))
        )
        helper = SimpleNamespace(newConfiguration=lambda conf: conf)
        apache = SimpleNamespace(
            hadoop=SimpleNamespace(
                util=SimpleNamespace(VersionInfo=SimpleNamespace(getVersion=lambda: hadoop)),
                fs=SimpleNamespace(FileSystem=SimpleNamespace(newInstance=self._new)),
            ),
            spark=SimpleNamespace(
                SparkConf=lambda: self.properties,
                deploy=SimpleNamespace(SparkHadoopUtil=SimpleNamespace(get=lambda: helper)),
            ),
        )
        self.org = SimpleNamespace(apache=apache)

    def _new(self, uri: str, conf: dict[str, str]) -> Any:
        if self._failure is not None:
            raise self._failure
        return SimpleNamespace(close=lambda: self.opened.append(f"{uri} {conf.get(ENDPOINT)}"))


def test_a_file_system_is_made_with_what_the_connection_says() -> None:
    jvm = Jvm()

    prepare_file_system(jvm, ROOT, {}, {ENDPOINT: "http://s3:9000"})

    assert jvm.opened == [f"{ROOT} http://s3:9000"]


def test_a_file_system_is_made_for_a_root_with_any_name() -> None:
    jvm = Jvm()

    prepare_file_system(jvm, "s3a://bucket/w\u00f6rk root #1%20+?", {}, {})

    assert jvm.opened == ["s3a://bucket/w%C3%B6rk%20root%20%231%2520%2B%3F None"]


def test_a_jvm_that_would_work_in_a_directory_of_another_name_is_refused() -> None:
    def to_path() -> None:
        raise ValueError("Malformed input or input contains unmappable characters")

    jvm: Any = SimpleNamespace(java=SimpleNamespace(io=SimpleNamespace(File=lambda _: SimpleNamespace(toPath=to_path))))

    with pytest.raises(ConfigurationError, match="cannot name '/data/w\u00f6rk': its locale is without UTF-8"):
        check_names(lambda: jvm, ["/data", "/data/w\u00f6rk"])


def test_what_the_user_has_set_stays() -> None:
    jvm = Jvm(given=(ENDPOINT,))

    prepare_file_system(jvm, ROOT, {}, {ENDPOINT: "http://s3:9000"})

    assert jvm.opened == [f"{ROOT} http://of-the-user:9000"]


def test_a_jvm_without_s3a_is_told_what_to_add() -> None:
    jvm = Jvm(failure=RuntimeError("ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"))

    with pytest.raises(ConfigurationError, match=r"cannot open s3a://bucket.*S3AFileSystem not found") as refused:
        prepare_file_system(jvm, ROOT, {}, {})

    assert "packages=['org.apache.hadoop:hadoop-aws:3.4.2']" in str(refused.value)


@pytest.mark.parametrize("release", ["3.3.4", "3.4.1"])
def test_a_hadoop_that_cannot_create_on_condition_is_refused(release: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Hadoop {release}.*Use Spark 4\.1 or newer"):
        prepare_file_system(Jvm(release), ROOT, {}, {})


def test_hdfs_needs_no_later_hadoop() -> None:
    jvm = Jvm("3.3.4")

    prepare_file_system(jvm, "hdfs://nn/x", {}, {})

    assert jvm.opened == ["hdfs://nn/x None"]


def test_a_conf_that_sets_what_is_ours_is_refused_before_a_property_is_set() -> None:
    jvm = Jvm()

    with pytest.raises(ApplicationRefusedError, match=r"the Spark conf sets spark\.hadoop\.fs\.ha\.root"):
        prepare_file_system(jvm, ROOT, {"spark.hadoop.fs.ha.root": "s3a://other"}, {ENDPOINT: "http://s3:9000"})

    assert jvm.properties == {}


def config(**values: Any) -> HaConfig:
    return HaConfig.build(
        zookeeper="zk:2181", storage_root="file:///s", work_root="s3://bucket/live", home_root="file:///h", **values
    )


def test_the_conf_of_the_work_root_holds_for_its_bucket_alone() -> None:
    options = S3Options.model_validate(
        {"endpoint_url": "http://s3:9000", "access_key": "a-key", "secret_key": "hidden"}
    )

    assert s3a_conf(config(s3=options)) == {
        f"spark.hadoop.fs.s3a.bucket.bucket.{key}": value
        for key, value in {
            "endpoint": "http://s3:9000",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "aws.credentials.provider": SIMPLE_CREDENTIALS,
            "access.key": "a-key",
            "secret.key": "hidden",
        }.items()
    }


def test_without_keys_in_the_connection_the_site_says_where_they_are() -> None:
    assert s3a_conf(config(s3=S3Options(region="eu-west-1", path_style=False))) == {
        "spark.hadoop.fs.s3a.bucket.bucket.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.bucket.bucket.path.style.access": "false",
    }


def test_a_mounted_work_root_needs_none() -> None:
    assert s3a_conf(HaConfig.build(zookeeper="zk:2181", storage_root="file:///s")) == {}
