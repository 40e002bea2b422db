# SPDX-License-Identifier: Apache-2.0
"""A local cluster serves the definitions that a cluster gets, with the descriptions that `kubectl explain` shows."""

from tests.repository import our_definitions
from trainwright.controller.cli.local.training import definitions


def test_the_definitions_are_those_of_an_installation() -> None:
    installed = our_definitions()
    served = {document["metadata"]["name"]: document for document in definitions()}
    assert served == {document["metadata"]["name"]: document for document in installed}
    schema = served["trainjobs.trainer.kubeflow.org"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    trainer = schema["properties"]["spec"]["properties"]["trainer"]["properties"]
    assert trainer["numNodes"]["description"]
