# SPDX-License-Identifier: Apache-2.0
"""Merge words of the schemas, as comparison and patches read them."""

from trainwright.api.base import Merge
from trainwright.api.kubernetes.core.v1 import Container, PodSpec, Volume
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.merge import ATOMIC, GRANULAR, fields
from trainwright.api.trainer.v1alpha1 import ContainerPatch, EnvInjectionTarget, PodSpecPatch, TrainJob, TrainJobSpec


def test_lists() -> None:
    spec = fields(PodSpec)
    assert spec["containers"].struct is Container
    assert spec["containers"].shape == "list"
    assert spec["containers"].required
    assert spec["containers"].merge == Merge("map", keys=("name",), patch=("merge",), patch_key="name")
    assert spec["volumes"].merge.patch == ("merge", "retainKeys")
    assert spec["tolerations"].merge == ATOMIC
    assert fields(Container)["ports"].merge.keys == ("containerPort", "protocol")
    assert fields(Container)["ports"].merge.patch_key == "containerPort"
    assert fields(EnvInjectionTarget)["containerNames"].merge == Merge("set")
    assert fields(ObjectMeta)["finalizers"].merge == Merge("set", patch=("merge",))


def test_maps_and_structs() -> None:
    assert fields(PodSpec)["nodeSelector"].merge == ATOMIC
    assert fields(PodSpecPatch)["nodeSelector"].merge == GRANULAR
    assert fields(Volume)["configMap"].merge == ATOMIC
    assert fields(TrainJob)["spec"].struct is TrainJobSpec
    assert fields(TrainJob)["spec"].merge == GRANULAR


def test_attributes() -> None:
    found = fields(TrainJobSpec)["runtimeRef"]
    assert (found.attribute, found.required, found.shape) == ("runtime_ref", True, "struct")
    assert fields(TrainJobSpec)["suspend"].merge == ATOMIC


def test_mounts_are_patched_by_path_and_owned_by_name() -> None:
    merge = fields(ContainerPatch)["volumeMounts"].merge
    assert merge.keys == ("name",)
    assert merge.patch_key == "mountPath"
