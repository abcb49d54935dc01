"""A directory with a base on S3: what its names cost, and what becomes of files that are gone or replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import AREA, OLD, OWN, Store, on_s3
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.component_jvm import ComponentJvm, base, java_class


pytestmark = pytest.mark.timeout(400)
ID = "c351d044-0f03-447f-99fc-95d370f5fb88"
VERSION, TABLE = f"state/0/3/17_{ID}.zip", f"state/0/3/SSTs/000008-{ID}.sst"


@dataclass
class Inherited:
    """A query's directory of epoch 8 that begins with files of epoch 7.

    :ivar requests: Methods of the requests to the store, in order.
    """

    store: Store
    client: Any
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket = self.store.uri.split("/")[2]
        entries = {}
        for name in ("metadata", "offsets/3", "offsets/4", "commits/3", VERSION, TABLE):
            etag = self.put(OLD, name, f"7 {name}".encode())
            entries[name] = (f"{OLD}/q/{name}", len(f"7 {name}"), 0, etag)
        self.client.put_object(Bucket=self.bucket, Key=f"root/{OWN}/q/_ha_base", Body=base(entries))
        self.files = self.store.jvm.files(self.store.conf, self.store.uri)
        self.names("")  # the base has been read

    def put(self, directory: str, name: str, content: bytes) -> str:
        """Write a file of one of the epochs; returns its ETag."""
        answer = self.client.put_object(Bucket=self.bucket, Key=f"root/{directory}/q/{name}", Body=content)
        return str(answer["ETag"].strip('"'))

    def remove(self, name: str) -> None:
        """Remove a file of epoch 7."""
        self.client.delete_object(Bucket=self.bucket, Key=f"root/{OLD}/q/{name}")

    def path(self, name: str) -> Any:
        """Return the path by which Spark knows a file."""
        return self.store.jvm.path(f"{self.store.uri}/{name}" if name else self.store.uri)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self.store.jvm.read(self.files, f"{self.store.uri}/{name}")

    def names(self, name: str) -> list[str]:
        """Return the names in a directory."""
        return [status.getPath().getName() for status in self.files.listStatus(self.path(name))]

    def contains(self, name: str) -> bool:
        """Whether Spark finds a file."""
        return bool(self.files.contains(self.path(name)))

    def copy(self, name: str, target: Path) -> bytes:
        """Copy a file to the local disk; returns its content."""
        self.files.copyToLocalFile(False, self.path(name), self.store.jvm.path(f"file://{target}"))
        return target.read_bytes()

    def cost(self, work: Callable[[], object]) -> list[str]:
        """Return the methods of the requests of some work."""
        self.requests.clear()
        work()
        return list(self.requests)


@pytest.fixture
def query(s3_jvm: ComponentJvm, s3: S3Access) -> Iterator[Inherited]:
    requests: list[str] = []

    def noting(method: str) -> Callable[[Exchange], None]:
        def note(exchange: Exchange) -> None:
            requests.append("LIST" if "prefix=" in exchange.path else method)
            exchange.forward()

        return note

    faults = [Fault(noting(method), method, AREA, times=FOR_EVER) for method in ("GET", "HEAD", "PUT", "POST")]
    client = s3.client()
    with s3_proxy(s3.endpoint, *faults) as proxied:
        yield Inherited(on_s3(s3_jvm, s3, proxied), client, requests)
    client.close()


def test_an_entry_of_a_log_costs_a_look_and_a_read(query: Inherited) -> None:
    assert query.cost(lambda: query.read("offsets/4")) == ["HEAD", "GET"]


def test_an_entry_of_a_log_that_was_listed_is_read_once(query: Inherited) -> None:
    query.names("offsets")

    assert query.cost(lambda: query.read("offsets/4")) == ["GET"]
    assert query.cost(lambda: query.read("offsets/4")) == []
    assert query.read("offsets/4") == b"7 offsets/4"


def test_an_own_entry_is_read_once_its_log_is_listed_again(query: Inherited) -> None:
    """Python writes it between two queries, and Spark lists a log when a query starts."""
    query.names("offsets")
    query.read("offsets/4")
    query.put(OWN, "offsets/4", b"8 offsets/4")
    query.names("offsets")

    assert query.read("offsets/4") == b"8 offsets/4"


@pytest.mark.parametrize("change", ["overwrite", "rename"])
def test_an_own_entry_that_this_jvm_writes_is_read_at_once(query: Inherited, change: str) -> None:
    jvm = query.store.jvm
    query.put(OWN, "offsets/aside", b"8 offsets/4")
    query.names("offsets")
    query.read("offsets/4")

    if change == "overwrite":
        stream = query.files.create(query.path("offsets/4"), True)
        stream.write(b"8 offsets/4")
        stream.close()
    else:
        query.files.rename(query.path("offsets/aside"), query.path("offsets/4"))

    assert jvm.read(query.files, f"{query.store.uri}/offsets/4") == b"8 offsets/4"


def test_a_small_table_is_uploaded_with_one_request(query: Inherited, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"table")
    name = TABLE.replace("000008", "000009")
    local = query.store.jvm.path(f"file://{tmp_path}/table")

    assert query.cost(lambda: query.files.copyFromLocalFile(False, True, local, query.path(name))) == ["PUT"]
    assert query.read(name) == b"table"


def test_a_table_that_cannot_be_read_is_not_uploaded(query: Inherited, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    name = TABLE.replace("000008", "000009")
    local = query.store.jvm.path(f"file://{tmp_path}/table")

    with pytest.raises(Py4JJavaError):
        query.files.copyFromLocalFile(False, True, local, query.path(name))
    assert not query.contains(name)


@pytest.mark.parametrize("name", [VERSION, TABLE])
def test_state_costs_a_read(query: Inherited, name: str, tmp_path: Path) -> None:
    assert query.cost(lambda: query.read(name)) == ["GET"]
    assert query.cost(lambda: query.copy(name, tmp_path / "copied")) == ["GET"]


def test_what_the_base_names_is_found_without_a_request(query: Inherited) -> None:
    assert query.cost(lambda: [query.contains(name) for name in ("offsets/4", "offsets", "", VERSION)]) == []


def test_an_entry_that_does_not_exist_costs_a_look(query: Inherited) -> None:
    assert not query.contains("offsets/5")
    assert query.cost(lambda: query.contains("offsets/5")) == ["HEAD"]


def test_a_directory_of_the_base_is_made_without_a_request(query: Inherited) -> None:
    assert query.cost(lambda: query.files.mkdirs(query.path("offsets"))) == []
    assert query.names("offsets") == ["3", "4"]


def test_a_directory_without_own_files_costs_one_listing(query: Inherited) -> None:
    assert query.cost(lambda: query.names("offsets")) == ["LIST"]


def test_a_directory_with_own_files_costs_one_listing_once_they_are_known(query: Inherited) -> None:
    query.put(OWN, "offsets/5", b"8 offsets/5")

    assert query.names("offsets") == ["3", "4", "5"]
    assert query.cost(lambda: query.names("offsets")) == ["LIST"]


def test_an_own_entry_comes_before_that_of_the_base(query: Inherited) -> None:
    query.put(OWN, "offsets/4", b"8 offsets/4")

    assert query.read("offsets/4") == b"8 offsets/4"
    assert query.files.getFileStatus(query.path("offsets/4")).getLen() == len("8 offsets/4")


def test_a_small_file_can_be_read_from_any_position(query: Inherited) -> None:
    stream = query.files.open(query.path(VERSION))
    stream.seek(2)

    assert bytes(stream.readAllBytes()) == VERSION.encode()
    assert stream.getPos() == len(f"7 {VERSION}")
    with pytest.raises(Py4JJavaError, match="position 1000 of"):
        stream.seek(1000)


@pytest.mark.parametrize("name", ["offsets/4", VERSION])
def test_a_file_that_is_gone_is_an_error_of_its_opening(query: Inherited, name: str) -> None:
    query.remove(name)

    with pytest.raises(Py4JJavaError, match=f"{name} is gone: the base of epoch 8 names s3a:.*{OLD}") as told:
        query.files.open(query.path(name))
    assert java_class(told.value) == "java.io.FileNotFoundException"


def test_a_table_that_is_gone_is_not_copied(query: Inherited, tmp_path: Path) -> None:
    query.remove(TABLE)

    with pytest.raises(Py4JJavaError, match="is gone: the base of epoch 8"):
        query.copy(TABLE, tmp_path / "copied")


@pytest.mark.parametrize("content", [b"7", b"7 another file of another length, which the base does not name"])
def test_a_file_that_was_written_again_is_not_read(query: Inherited, content: bytes) -> None:
    query.put(OLD, "offsets/4", content)

    with pytest.raises(Py4JJavaError):
        query.read("offsets/4")


def test_a_file_of_the_base_that_was_replaced_is_told_by_its_etag(s3_jvm: ComponentJvm, s3: S3Access) -> None:
    store = on_s3(s3_jvm, s3, s3.endpoint)
    bucket = store.uri.split("/")[2]
    client = s3.client()
    key = f"root/{OLD}/q/state/0/3/17.zip"
    etag = client.put_object(Bucket=bucket, Key=key, Body=b"state")["ETag"].strip('"')
    head = {"state/0/3/17.zip": (f"{OLD}/q/state/0/3/17.zip", 5, 0, etag)}
    client.put_object(Bucket=bucket, Key=f"root/{OWN}/q/_ha_base", Body=base(head))
    files, name = s3_jvm.files(store.conf, store.uri), f"{store.uri}/state/0/3/17.zip"

    assert s3_jvm.read(files, name) == b"state"
    client.put_object(Bucket=bucket, Key=key, Body=b"etats")
    with pytest.raises(Py4JJavaError, match=f"instead of {etag}"):
        s3_jvm.read(files, name)
    client.close()
