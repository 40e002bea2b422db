# SPDX-License-Identifier: Apache-2.0
"""How each field of a patch is merged with the runtime's: by key, as a whole, or deeply."""

from typing import Any

import pytest

from tests.unit.plugins.blueprints import blueprint, container, job_template, outcome

TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
OTHER_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]}


def patched(base: dict[str, Any], *patches: dict[str, Any]) -> dict[str, Any]:
    """The pod after the patches, one manager each."""
    entries = [
        {
            "manager": f"example.com/{index}",
            "trainingRuntimeSpec": {
                "template": {
                    "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": patch}}}}]}
                }
            },
        }
        for index, patch in enumerate(patches)
    ]
    containers = base.pop("containers", None) or [container("node")]
    return outcome(blueprint({}, job_template("node", "trainer", *containers, **base)), runtimePatches=entries).pod()


@pytest.mark.parametrize(
    ("field", "base", "patches", "expected"),
    [
        pytest.param(
            "imagePullSecrets",
            [{"name": "a"}, {"name": "b"}],
            [[{"name": "c"}, {"name": "b"}]],
            [{"name": "c"}, {"name": "a"}, {"name": "b"}],
            id="secrets-by-name",
        ),
        pytest.param(
            "schedulingGates",
            [{"name": "a"}],
            [[{"name": "b"}], [{"name": "a"}]],
            [{"name": "b"}, {"name": "a"}],
            id="gates-by-name",
        ),
        pytest.param("tolerations", [{"key": "a"}], [[{"key": "b"}], [{"key": "c"}]], [{"key": "c"}], id="last-whole"),
        pytest.param(
            "volumes",
            [{"name": "v", "emptyDir": {"medium": "Memory"}}],
            [[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]],
            [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
            id="one-source-deeply",
        ),
        pytest.param(
            "securityContext",
            {"runAsUser": 1, "seLinuxOptions": {"level": "a"}, "supplementalGroups": [1, 2]},
            [{"fsGroup": 3, "seLinuxOptions": {"role": "r"}, "supplementalGroups": [4]}],
            {
                "runAsUser": 1,
                "fsGroup": 3,
                "seLinuxOptions": {"level": "a", "role": "r"},
                "supplementalGroups": [4],
            },
            id="security-deeply",
        ),
        pytest.param(
            "affinity",
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}, "podAffinity": {}},
            [{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": OTHER_TERMS}}],
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": OTHER_TERMS}, "podAffinity": {}},
            id="affinity-deeply-its-lists-whole",
        ),
        pytest.param("serviceAccountName", "a", ["b", "c"], "c", id="text"),
        pytest.param("terminationGracePeriodSeconds", 5, [0], 0, id="zero"),
        pytest.param("nodeSelector", {"a": "1"}, [{"b": "2"}, {"a": "3"}], {"a": "3", "b": "2"}, id="map"),
        pytest.param("nodeSelector", {"a": "1"}, [{}], {"a": "1"}, id="empty-says-nothing"),
        pytest.param("tolerations", [{"key": "a"}], [[]], [{"key": "a"}], id="empty-list-says-nothing"),
    ],
)
def test_fields_of_the_pod(field: str, base: Any, patches: list[Any], expected: Any) -> None:
    assert patched({field: base}, *({field: patch} for patch in patches))[field] == expected


@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("field", "base", "patch", "expected"),
    [
        pytest.param(
            "volumeMounts",
            [{"name": "a", "mountPath": "/x", "readOnly": True}, {"name": "b", "mountPath": "/y"}],
            [{"name": "c", "mountPath": "/x"}],
            [{"name": "c", "mountPath": "/x", "readOnly": True}, {"name": "b", "mountPath": "/y"}],
            id="mounts-by-path",
        ),
        pytest.param(
            "securityContext",
            {"runAsUser": 1, "capabilities": {"add": ["A"], "drop": ["ALL"]}},
            {"privileged": False, "capabilities": {"add": ["B"]}},
            {"runAsUser": 1, "privileged": False, "capabilities": {"add": ["B"], "drop": ["ALL"]}},
            id="security-deeply",
        ),
        pytest.param(
            "env",
            [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            [{"name": "C", "value": "3"}, {"name": "A", "value": "4"}],
            [{"name": "C", "value": "3"}, {"name": "A", "value": "4"}, {"name": "B", "value": "2"}],
            id="variables-by-name",
        ),
    ],
)
def test_fields_of_a_container(where: str, field: str, base: Any, patch: Any, expected: Any) -> None:
    other = container("other")
    containers = [container("side", **{field: base}), other]
    pods = {"containers": [container("node"), *containers]} if where == "containers" else {"initContainers": containers}
    found = patched(pods, {where: [{"name": "side", field: patch}]})[where]
    (side,) = [item for item in found if item["name"] == "side"]
    assert side == container("side", **{field: expected})
    assert other in found


def test_a_patch_of_one_job_leaves_the_others() -> None:
    entry = {
        "template": {"metadata": {"labels": {"l": "1"}}, "spec": {"template": {"metadata": {"labels": {"p": "2"}}}}}
    }
    spec = {"replicatedJobs": [{"name": "other", **entry}]}
    patches = [{"manager": "example.com/x", "trainingRuntimeSpec": {"template": {"spec": spec}}}]
    result = outcome(blueprint({}, job_template(), job_template("other", None)), runtimePatches=patches)
    assert result.replicated_job("other")["template"]["metadata"]["labels"] == {"l": "1"}
    assert result.replicated_job("other")["template"]["spec"]["template"]["metadata"]["labels"] == {"p": "2"}
    assert "metadata" not in result.replicated_job("node")["template"]["spec"]["template"]
