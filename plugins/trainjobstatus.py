# SPDX-License-Identifier: Apache-2.0
"""Tells training processes where to report their progress: address, token and CA certificate, as Kubeflow Trainer does.

The feature gate `TrainJobStatus` loads it. Clients are Transformers' KubeflowCallback and the Kubeflow SDK's
`update_trainjob_status`; both find the server through the three variables.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core import v1 as core
from trainwright.api.objects import annotations_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_PROGRESS, PROGRESS_NONE
from trainwright.api.trainer.v1alpha1.progress import declared, report_audience, report_path
from trainwright.plugins.contract import (
    ClusterFacts,
    Component,
    Enqueue,
    FactUnavailable,
    Finding,
    Info,
    Installation,
    Reference,
    Runtime,
    Stage,
    Warned,
    Watch,
)

VARIABLE_URL = "KUBEFLOW_TRAINER_SERVER_URL"
VARIABLE_CA = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
VARIABLE_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - a variable that holds a path
VOLUME = "kubeflow-trainer-token"
FOLDER = "/var/run/secrets/kubeflow/trainer"
KEY = "ca.crt"
"""Key of the CA certificates in the manager's Secret and in the ConfigMaps of jobs, and their file in pods."""
TOKEN_FILE = "token"  # noqa: S105 - a file name
TOKEN_SECONDS = 3600
PLACEHOLDER = "(the CA certificates of the manager)\n"
"""Stands for the certificates where they cannot be read: in `trainwright render`."""


class TrainJobStatusPlugin:
    """Lets the containers of the first trainer pods report their progress to the manager's status server.

    It sets three variables, mounts a token for this job, and copies the CA certificates into a ConfigMap of the job.
    The annotation `trainwright.dev/progress: none` of the TrainJob or of its runtime leaves a job out.
    """

    name = "TrainJobStatus"
    off_by_default = True  # the feature gate enables it
    uses_installation = True

    def __init__(self, *, installation: Installation) -> None:
        self._installation = installation
        self._secret = Reference(core.Secret.RESOURCE, installation.namespace, installation.secret)

    def watches(self) -> Sequence[Watch]:
        """The ConfigMaps of jobs, and the Secret with the CA certificates: a new CA reaches all unfinished jobs."""
        own = Watch(core.ConfigMap.RESOURCE, metadata_only=True, makes=True)
        if self._installation.authority:
            return (own,)
        namespace, name = self._secret.namespace, self._secret.name
        return (own, Watch(core.Secret.RESOURCE, Enqueue.UNFINISHED, model=core.Secret, namespace=namespace, name=name))

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """The CA certificates; and whether the job was built, because a job that was goes on without them."""
        if _takes_part(job, runtime) and not self._installation.authority:
            yield from (self._secret, _config_map_of(job), _jobset_of(job))

    def validate(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Warn of an unknown value of the annotation. The pipeline warns of values of the runtime that are replaced."""
        for problem in declared(annotations_of(job), annotations_of(info.runtime))[1]:
            if problem.annotation == ANNOTATION_PROGRESS:
                # Where files are read, too, the plugin for them refuses it.
                yield Warned(problem.warning, path=f"metadata.annotations[{problem.annotation}]")

    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        """Set the variables and mount the volume in every container that is not an init container."""
        pods = info.trainer_pods
        if pods is None or not _takes_part(job, info.runtime):
            return
        at = self._installation
        variables = {
            VARIABLE_URL: f"https://{at.host}:{at.port}{report_path(job.namespace, job.name)}",
            VARIABLE_CA: f"{FOLDER}/{KEY}",
            VARIABLE_TOKEN: f"{FOLDER}/{TOKEN_FILE}",
        }
        for container in pods.containers:
            for name, value in variables.items():
                container.set_env(name, value, why="where training reports its progress")
            mount = core.VolumeMount(name=VOLUME, mount_path=FOLDER, read_only=True)
            container.set_mount(mount, why="token and CA certificates for reports")
        pods.set_volume(_volume(job), why="token and CA certificates for reports")

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The CA certificates, for every job as in Kubeflow Trainer. Pods wait for them.

        Raises FactUnavailable without certificates, unless the job was built before.
        """
        if not _takes_part(job, info.runtime):
            return
        authority = self._authority(info.facts, job)
        if authority:
            data = {"data": {KEY: authority}}
            yield Component.owned_by(
                job, core.ConfigMap.RESOURCE, _config_map_of(job).name, data, stage=Stage.POD_INPUT
            )

    def _authority(self, facts: ClusterFacts, job: TrainJob) -> str:
        """The CA certificates; empty if there are none and the job can do without new ones."""
        if self._installation.authority:
            return self._installation.authority
        if facts.offline:
            return PLACEHOLDER
        try:
            secret = facts.get(self._secret, core.Secret)
        except FactUnavailable:
            if not facts.preview:
                raise
            existing = facts.get(_config_map_of(job), core.ConfigMap)
            return ((existing.data or {}) if existing is not None else {}).get(KEY, PLACEHOLDER)
        problem = "does not exist"
        if secret is not None:
            try:
                found = base64.b64decode((secret.data or {}).get(KEY, ""), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                found = ""
            if found:
                return found
            problem = f"has no {KEY}"
        if facts.exists(_config_map_of(job)) or facts.exists(_jobset_of(job)):
            return ""
        raise FactUnavailable(
            f"{self._secret} {problem}, so the pods could not verify the status server: restore it, or set the "
            f"annotation {ANNOTATION_PROGRESS}: {PROGRESS_NONE} on a job that reports no progress"
        )


def _takes_part(job: TrainJob, runtime: Runtime) -> bool:
    return declared(annotations_of(job), annotations_of(runtime))[0].progress != PROGRESS_NONE


def _config_map_of(job: TrainJob) -> Reference:
    return Reference(core.ConfigMap.RESOURCE, job.namespace, f"{job.name}-tls-config")


def _jobset_of(job: TrainJob) -> Reference:
    return Reference(JobSet.RESOURCE, job.namespace, job.name)


def _volume(job: TrainJob) -> core.Volume:
    audience = report_audience(job.namespace, job.name)
    token = core.ServiceAccountTokenProjection(path=TOKEN_FILE, audience=audience, expiration_seconds=TOKEN_SECONDS)
    authority = core.ConfigMapProjection(name=_config_map_of(job).name, items=[core.KeyToPath(key=KEY, path=KEY)])
    sources = [core.VolumeProjection(service_account_token=token), core.VolumeProjection(config_map=authority)]
    return core.Volume(name=VOLUME, projected=core.ProjectedVolumeSource(sources=sources))
