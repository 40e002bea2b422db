# SPDX-License-Identifier: Apache-2.0
"""Field sets that a cache packs, and what others see of the same object."""

from typing import Any

import msgspec
import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime.cache.transforms import pack, unpacked

TREE: dict[str, Any] = {"f:data": {"f:a": {}}, "f:metadata": {'k:{"uid":"01234567-89ab-cdef-0123-456789abcdef"}': {}}}


def document() -> dict[str, Any]:
    entries = [{"manager": "m", "operation": "Apply", "fieldsV1": TREE}, {"manager": "n", "operation": "Update"}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": entries}}


@pytest.mark.parametrize("model", [True, False])
def test_an_object_with_packed_fields_has_its_trees_on_the_wire(model: bool) -> None:
    if model:
        held: Any = msgspec.convert(document(), ConfigMap)
        held.metadata.managed_fields[0].fields_v1 = pack(TREE)
    else:
        held = document()
        held["metadata"]["managedFields"][0]["fieldsV1"] = pack(TREE)
    assert unpacked(held) == document()


def test_an_object_without_packed_fields_is_as_it_is() -> None:
    held = document()
    assert unpacked(held) is held
