"""Job graph: the files, conf and target of a job, persisted for a new leader (design, sections 1 and 3)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from airflow_provider_ha.host.engines.table import DEFAULT_ENGINE
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.records import Model, Record


class Blob(Model):
    """A content-addressed blob.

    :param sha256: Digest of the content, and name of the blob.
    :param size: Bytes.
    """

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class Artifact(Model):
    """A file that travels with the application.

    :param name: File name on the driver's side, without directories.
    :param blob: Content of the file.
    :param unpack: Whether it is a zipped package directory, unpacked into the directory of the application.
    :param alias: Directory name of an unpacked archive; empty for the file name.
    """

    name: str
    blob: Blob
    unpack: bool = False
    alias: str = ""


class Target(Model):
    """Place of a job's drivers.

    :param engine: Name of the engine that runs them.
    :param master: Spark master of the session: ``--master``.
    :param deploy_mode: Whether spark-submit itself is the driver (``client``), or the cluster starts the driver.
    :param engine_options: Options of the engine for this job; each engine has different ones.
    :param cluster_options: Options from the submission's connection that describe the machines of a cluster. They apply
        to a later client whose connection has no such options.
    """

    engine: str = DEFAULT_ENGINE
    master: str = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    engine_options: dict[str, str] = {}
    cluster_options: dict[str, str] = {}


class JobGraph(Record):
    """Everything needed to start a run on another host tomorrow. Stored in storage, never in ZooKeeper.

    :param name: Name of the application.
    :param application: The script.
    :param arguments: Its arguments, templates already rendered.
    :param modules: Sibling modules and zipped packages, copied into the directory of the script.
    :param py_files: ``--py-files``: zips, eggs, wheels, modules.
    :param files: ``--files``: data files, found in the driver's working directory.
    :param jars: ``--jars``.
    :param archives: ``--archives``: unpacked in the working directories of driver and executors.
    :param beside: Names of data files next to the script on the submitting host, which are not uploaded.
    :param packages: ``--packages``, Maven coordinates.
    :param conf: Spark conf; travels in a file that only its owner can read.
    :param lineage: Conf for OpenLineage, below *conf*; holds no secret (:mod:`~airflow_provider_ha.jobs.options.conf`).
    :param env: Environment of the driver.
    :param target: Place of the drivers.
    :param driver_memory: ``--driver-memory``.
    :param options: Options of the job's high availability.
    """

    kind: ClassVar[str] = "job-graph"

    job_id: str
    name: str
    application: Artifact
    arguments: tuple[str, ...] = ()
    modules: tuple[Artifact, ...] = ()
    py_files: tuple[Artifact, ...] = ()
    files: tuple[Artifact, ...] = ()
    jars: tuple[Artifact, ...] = ()
    archives: tuple[Artifact, ...] = ()
    beside: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: dict[str, str] = {}
    lineage: dict[str, str] = {}
    env: dict[str, str] = {}
    target: Target = Target()
    driver_memory: str | None = None
    options: HaOptions = HaOptions()

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """All files of the application."""
        return (self.application, *self.modules, *self.py_files, *self.files, *self.jars, *self.archives)


class GraphPointer(Record):
    """``persisted_job_graph``: exists if and only if a new leader has to recover the job.

    Each submission rewrites it, so its ZooKeeper transaction is that of the newest submission: compared with the epoch,
    it shows whether that submission has led (:mod:`~airflow_provider_ha.jobs.status`).

    :param graph: Blob of the job graph.
    :param run: Number of its run.
    :param attempt: The newest submission of the run; 0 before the first one.
    """

    kind: ClassVar[str] = "graph-pointer"

    graph: Blob
    run: int
    attempt: int = 0
