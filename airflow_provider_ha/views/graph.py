"""The persisted job graph, without what may be secret: the values of Spark's conf, of the environment, of arguments."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ha.argument_secrets import hidden
from airflow_provider_ha.jobs.model import Artifact, GraphPointer, JobGraph, Target
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.options.lineage_conf import counted
from airflow_provider_ha.views.view import View


class SiteConfView(View):
    """The ``spark-defaults.conf`` of this host.

    :param file: Its path.
    :param keys: The conf keys that it sets.
    """

    file: str
    keys: tuple[str, ...]


class GraphView(View):
    """The job graph of a submission.

    :param job_id: The job.
    :param name: Name of the application.
    :param application: The script.
    :param arguments: Its arguments; values that look like secrets are ``***``.
    :param modules: Sibling modules and zipped packages, copied into the directory of the script.
    :param py_files: ``--py-files``.
    :param files: ``--files``.
    :param jars: ``--jars``.
    :param archives: ``--archives``.
    :param packages: ``--packages``, Maven coordinates.
    :param target: Where the drivers run.
    :param driver_memory: ``--driver-memory``.
    :param options: Options of the job's high availability.
    :param conf_keys: Keys of its Spark conf, those for OpenLineage included.
    :param env_keys: Names of its environment variables.
    :param site_conf: Spark's defaults on this host, which the job's own conf overrides; ``null`` if missing or
        unreadable.
    :param sha256: Digest of the graph: the name of its blob.
    :param recovered_by_a_new_leader: Whether a new leader would recover the job from it.
    """

    job_id: str
    name: str
    application: Artifact
    arguments: tuple[str, ...]
    modules: tuple[Artifact, ...]
    py_files: tuple[Artifact, ...]
    files: tuple[Artifact, ...]
    jars: tuple[Artifact, ...]
    archives: tuple[Artifact, ...]
    packages: tuple[str, ...]
    target: Target
    driver_memory: str | None
    options: HaOptions
    conf_keys: tuple[str, ...]
    env_keys: tuple[str, ...]
    site_conf: SiteConfView | None
    sha256: str
    recovered_by_a_new_leader: bool


def graph_view(
    graph: JobGraph, *, sha256: str, pointer: GraphPointer | None, site_conf: tuple[str, Sequence[str]] | None
) -> GraphView:
    """Return the graph of a run.

    :param pointer: Of the job; ``None`` when no new leader has to recover it.
    :param site_conf: The site's file, and the keys that it sets.
    """
    shown = {name: getattr(graph, name) for name in GraphView.model_fields if name in JobGraph.model_fields}
    shown["arguments"] = hidden(graph.arguments)
    return GraphView(
        **shown,
        conf_keys=tuple(sorted({*graph.conf, *counted(graph.lineage, graph.conf)})),
        env_keys=tuple(sorted(graph.env)),
        site_conf=SiteConfView(file=site_conf[0], keys=tuple(site_conf[1])) if site_conf is not None else None,
        sha256=sha256,
        recovered_by_a_new_leader=pointer is not None,
    )
