"""What is known without an HDFS: addresses, refusals of servers, which of several name nodes is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from airflow_provider_ha.config import HaConfig, HdfsOptions
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.storage._webhdfs import HdfsLimits
from airflow_provider_ha.storage.hdfs_store import HdfsStore


QUICK = HdfsLimits(connect_timeout=1, read_timeout=1, attempts=1, deadline=10)
STANDBY = {"RemoteException": {"exception": "StandbyException", "message": "Operation category READ is not supported"}}
STATUS = {"FileStatus": {"length": 5, "modificationTime": 7, "type": "FILE", "pathSuffix": ""}}


@contextmanager
def answering(status: int, body: bytes, *, asked: list[str] | None = None) -> Iterator[str]:
    """Yield the URL of a server that gives one answer to everything; asked to create a file, it sends to itself."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path)
            self.answer(status, body)

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "op=CREATE" in self.path:
                self.send_response(307)
                self.send_header("Location", f"http://127.0.0.1:{server.server_port}/data")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.answer(status, b"" if self.path == "/data" else body)

        def do_DELETE(self) -> None:
            self.do_GET()

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def store(*namenodes: str) -> HdfsStore:
    return HdfsStore("hdfs://nn:8020/ha", HdfsOptions(namenodes=namenodes, user="ha"), QUICK)


def config(**values: object) -> HaConfig:
    return HaConfig.build(zookeeper="zk:2181", **{"storage_root": "file:///ha", "home_root": "file:///home", **values})


def test_a_standby_name_node_sends_to_the_active_one_which_is_asked_first_from_then_on() -> None:
    asked: list[str] = []
    with (
        answering(403, json.dumps(STANDBY).encode(), asked=asked) as standby,
        answering(200, json.dumps(STATUS).encode()) as active,
    ):
        files = store(standby, active)

        found = [files.info("a"), files.info("b")]

    assert [file.size for file in found if file is not None] == [5, 5]
    assert len(asked) == 1


def test_without_an_active_name_node_all_are_to_be_named() -> None:
    with answering(403, json.dumps(STANDBY).encode()) as standby, pytest.raises(StorageUnavailableError) as caught:
        store(standby).info("a")

    assert "Name every name node as hdfs_namenodes" in caught.value.next_step


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (404, b"<html>"), (200, b"[]"), (200, b"{}")])
def test_another_web_server_is_no_empty_hdfs(status: int, body: bytes) -> None:
    with (
        answering(status, body) as other,
        pytest.raises(StorageUnavailableError, match=r"as WebHDFS|that of WebHDFS"),
    ):
        list(store(other).list(""))


def test_a_gateway_that_renames_without_options_is_refused() -> None:
    with (
        answering(200, b'{"boolean": true}') as gateway,
        pytest.raises(ConfigurationError, match="renames without options"),
    ):
        store(gateway).create("a", b"")


def test_a_server_that_asks_for_authentication_is_not_supported() -> None:
    with answering(401, b"<html>") as secured, pytest.raises(StorageUnavailableError, match="authentication") as caught:
        store(secured).read("a")

    assert "only simple authentication" in caught.value.next_step


def test_a_host_that_is_not_known_is_named() -> None:
    with pytest.raises(StorageUnavailableError, match=r"host name is not known here \(http://nowhere.invalid:9870\)"):
        HdfsStore("hdfs://nowhere.invalid:8020/ha", HdfsOptions(), QUICK).read("a")


def test_a_port_at_which_nothing_listens_is_named() -> None:
    with pytest.raises(StorageUnavailableError, match=r"cannot be reached .*http://127.0.0.1:1\)"):
        store("http://127.0.0.1:1").read("a")


def test_a_work_root_on_hdfs_is_accepted_with_its_name_nodes_as_text() -> None:
    made = config(work_root="hdfs://ns1/ha/", hdfs={"namenodes": "http://nn1:9870, http://nn2:9870"})

    assert (made.work_uri, made.hdfs) == (
        "hdfs://ns1/ha/default",
        HdfsOptions(namenodes=("http://nn1:9870", "http://nn2:9870")),
    )


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"work_root": "hdfs:///ha"}, "names no name node"),
        ({"work_root": "hdfs://nn:8020"}, "names no name node and path"),
        ({"work_root": "hdfs://nn/ha", "home_root": "hdfs://nn/ha"}, "for work_root only"),
        ({"storage_root": "hdfs://nn/ha"}, "for work_root only"),
        ({"work_root": "hdfs://nn/ha", "hdfs": {"namenodes": "nn1:9870"}}, "is not of the form http://host:9870"),
        ({"work_root": "hdfs://nn/ha", "home_root": None, "storage_root": "s3://bucket"}, "give home_root"),
    ],
)
def test_an_address_that_cannot_work_is_refused(values: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        config(**values)


def test_the_environment_names_the_name_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HA_HDFS_NAMENODES", "https://nn1:9871")
    monkeypatch.setenv("SPARK_HA_HDFS_USER", "spark")

    made = HaConfig.from_env(zookeeper="zk", storage_root="file:///ha")

    assert made.hdfs == HdfsOptions(namenodes=("https://nn1:9871",), user="spark")
