"""Work areas without links and renames against the contract of all, and what only they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.s3_store import S3Store
from tests.contract.work_areas import WorkAreaContract
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.odd_names import ODD
from tests.support.s3.s3_server import S3Access


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)


class TestLayeredOnADirectory(WorkAreaContract):
    @pytest.fixture
    def area(self, tmp_path: Path) -> WorkArea:
        return LayeredWorkArea(LocalStore(tmp_path / ODD / "cluster", new=True))


class TestLayeredOnS3(WorkAreaContract):
    @pytest.fixture
    def area(self, real: S3Access) -> WorkArea:
        return LayeredWorkArea(S3Store(f"s3://{real.new_bucket()}/{ODD}/cluster", real.options()))


@pytest.mark.hours
class TestLayeredOnHdfs(WorkAreaContract):
    @pytest.fixture
    def area(self, hdfs: Hdfs) -> WorkArea:
        return LayeredWorkArea(HdfsStore(f"{hdfs.new_root()}/{ODD}/cluster", hdfs.options()))
