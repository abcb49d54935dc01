"""Two name nodes: the active one is killed, the other one takes over, and files are written and created on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_ha.errors import ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage._webhdfs import HdfsLimits
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from tests.support.hdfs.hdfs_pair import Pair, hdfs_pair


pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
QUICK = HdfsLimits(connect_timeout=1, read_timeout=2, attempts=2, deadline=10)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with hdfs_pair() as running:
        yield running


def test_a_store_goes_on_with_the_name_node_that_takes_over(pair: Pair) -> None:
    files = HdfsStore(f"{pair.uri}/ha", pair.options())
    files.create("a", b"before")
    pair.stand_by(0)
    with pytest.raises(StorageUnavailableError) as nowhere:
        HdfsStore(f"{pair.uri}/ha", pair.options(), QUICK).read("a")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(files.create, "b", b"during")  # asks both until one is active
        pair.namenodes[0].kill()
        pair.activate(1)
        waiting.result(timeout=120)

    assert "Name every name node" in nowhere.value.next_step
    assert (files.read("a"), files.read("b")) == (b"before", b"during")
    with pytest.raises(ObjectExistsError):
        files.create("a", b"again")
