# SPDX-License-Identifier: Apache-2.0
"""Checks the runtimes of files as admission does, by the functions of the webhooks."""

from collections.abc import Iterator
from typing import cast

from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.api.objects import labels_of
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime
from trainwright.api.trainer.v1alpha1.constants import LABEL_WEBHOOK_VALIDATION, WEBHOOK_VALIDATION_DISABLED
from trainwright.controller.runtime import AdmissionRequest
from trainwright.controller.trainer.admission.trainjobs import deprecation, is_deprecated, validate_runtime
from trainwright.plugins.contract import Runtime


def runtime_problems(runtime: Runtime) -> Iterator[str]:
    """The reasons to refuse a runtime. A label on the runtime turns the check off."""
    if labels_of(runtime).get(LABEL_WEBHOOK_VALIDATION) == WEBHOOK_VALIDATION_DISABLED:
        return
    verdict = validate_runtime(
        AdmissionRequest(
            operation="CREATE",
            # The check is generic over the two kinds of runtime.
            new=cast("ClusterTrainingRuntime", runtime),
            old=None,
            name=runtime.name,
            namespace=runtime.namespace,
            subresource="",
            user=UserInfo(),
            dry_run=True,
        )
    )
    for cause in verdict.errors:
        yield f"{runtime.RESOURCE.kind} {runtime.name}: {cause.message}"


def runtime_warnings(runtime: Runtime) -> Iterator[str]:
    """The warnings for users of the runtime."""
    if isinstance(runtime, ClusterTrainingRuntime) and is_deprecated(runtime):
        yield deprecation(runtime)
