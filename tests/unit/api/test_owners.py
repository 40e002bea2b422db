# SPDX-License-Identifier: Apache-2.0
"""The owner reference of a controller, for models and dictionaries, stored or not."""

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import controller_of, owner_reference


def test_the_owner_is_the_controller_of_what_carries_the_reference() -> None:
    owner = ConfigMap(metadata=ObjectMeta(name="shop", namespace="default", uid="u1"))
    reference = owner_reference(owner, ConfigMap.RESOURCE)
    assert reference == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "shop",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    controller = controller_of({"metadata": {"name": "child", "ownerReferences": [reference]}})
    assert controller is not None
    assert (controller.kind, controller.name, controller.uid) == ("ConfigMap", "shop", "u1")


def test_an_owner_that_was_never_stored_has_an_empty_uid() -> None:
    assert owner_reference({"metadata": {"name": "shop"}}, ConfigMap.RESOURCE)["uid"] == ""
