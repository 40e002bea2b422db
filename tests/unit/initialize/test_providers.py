# SPDX-License-Identifier: Apache-2.0
"""Providers of other distributions."""

from importlib.metadata import EntryPoint

import pytest

from trainwright.controller.initialize.contract import InitializeError
from trainwright.controller.initialize.huggingface import HuggingFace
from trainwright.controller.initialize.providers import BUILT_IN, GROUP, provider_class


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


HERE = "trainwright.controller.initialize.huggingface:HuggingFace"


@pytest.mark.parametrize("scheme", BUILT_IN)
def test_built_in(scheme: str) -> None:
    assert provider_class(scheme, ()).secrets is not None


def test_of_another_distribution() -> None:
    assert provider_class("gs", [entry("GS", HERE), entry("oci", "missing:X")]) is HuggingFace


@pytest.mark.parametrize(
    ("scheme", "entries", "text"),
    [
        ("s4", [], "no provider reads s4://: use one of file, hf, http, https, s3"),
        ("cache", [], "the data cache runs with the image of Kubeflow Trainer's initializer"),
        ("hf", [entry("hf", HERE)], "hf:// is built in, and"),
        ("gs", [entry("gs", HERE), entry("gs", "other:X")], "gs:// is added by"),
        ("gs", [entry("gs", "missing_module:X")], "cannot be loaded: No module named 'missing_module'"),
        ("gs", [entry("gs", "pathlib:Path")], "lacks files, read, close, variables, secrets"),
    ],
)
def test_what_is_wrong_with_a_provider(scheme: str, entries: list[EntryPoint], text: str) -> None:
    with pytest.raises(InitializeError) as caught:
        provider_class(scheme, entries)
    assert (caught.value.word, text in caught.value.sentence) == ("UnknownScheme", True)
