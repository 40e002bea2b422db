# SPDX-License-Identifier: Apache-2.0
"""What admission says of runtimes, for the runtimes of files: the webhooks' own functions, without a webhook."""

from collections.abc import Iterator
from typing import cast

from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime
from trainwright.api.trainer.v1alpha1.constants import LABEL_WEBHOOK_VALIDATION, WEBHOOK_VALIDATION_DISABLED
from trainwright.controller.runtime.objects import labels_of
from trainwright.controller.runtime.webhook.admission import Admission
from trainwright.controller.trainer.admission import deprecation, is_deprecated, validate_runtime
from trainwright.plugins.contract import Runtime


def runtime_problems(runtime: Runtime) -> Iterator[str]:
    """Why a runtime would be refused. Runtimes can opt out of the check by a label."""
    if labels_of(runtime).get(LABEL_WEBHOOK_VALIDATION) == WEBHOOK_VALIDATION_DISABLED:
        return
    verdict = validate_runtime(
        Admission(
            operation="CREATE",
            # The check takes either kind, but one at a time.
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
    """What a user of the runtime is told."""
    if isinstance(runtime, ClusterTrainingRuntime) and is_deprecated(runtime):
        yield deprecation(runtime)
