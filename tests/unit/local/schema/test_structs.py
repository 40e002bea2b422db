# SPDX-License-Identifier: Apache-2.0
"""Decoding of metadata by its struct; what is said of wrong types is rows of `tests/integration/local/writes.json`."""

from trainwright.controller.local.apiserver.schema.metadata import decode_metadata


def test_metadata_is_written_as_its_struct_is() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "", "controller": False}
    given = {
        "name": "a",
        "labels": {},
        "finalizers": [],
        "generation": 0,
        "creationTimestamp": "2026-01-01T01:00:00.5+01:00",
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [{**owner, "more": 1}],
        "managedFields": [{"manager": "m", "subresource": "", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}}],
    }
    metadata, dropped = decode_metadata(given)
    assert metadata == {
        "name": "a",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [owner],
        "managedFields": [{"manager": "m", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}}],
    }
    assert dropped == ["ownerReferences[0].more"]
