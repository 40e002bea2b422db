# SPDX-License-Identifier: Apache-2.0
"""Where training reports its progress: the path of a TrainJob's reports, and the audience of the tokens for it."""

from trainwright.api.trainer.v1alpha1.constants import GROUP, VERSION


def report_audience(namespace: str, name: str) -> str:
    """The audience of a token with which pods may report for this TrainJob, and for no other."""
    return f"{GROUP}/{VERSION}/namespaces/{namespace}/trainjobs/{name}/status"


def report_path(namespace: str, name: str) -> str:
    """The path of the reports of this TrainJob on the status server."""
    return f"/apis/{report_audience(namespace, name)}"
