# SPDX-License-Identifier: Apache-2.0
"""Which class reads which scheme: the built-in ones, and those of other distributions."""

import importlib
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from trainwright.controller.initialize.contract import InitializeError, ProviderClass, missing_parts

GROUP = "trainwright.initializers"
_HTTPS = ("trainwright.controller.initialize.https", "OneFile")
BUILT_IN = {
    "file": ("trainwright.controller.initialize.local", "LocalFolder"),
    "hf": ("trainwright.controller.initialize.huggingface", "HuggingFace"),
    "http": _HTTPS,
    "https": _HTTPS,
    "s3": ("trainwright.controller.initialize.s3", "ObjectStorage"),
}


def provider_class(scheme: str, others: Iterable[EntryPoint] | None = None) -> Any:
    """The class for a scheme. Raises InitializeError."""
    # Schemes hold `+` and `-`, and case does not matter.
    found = [one for one in (entry_points(group=GROUP) if others is None else others) if one.name.lower() == scheme]
    named = ", ".join(sorted(_distribution(one) for one in found))
    if scheme in BUILT_IN:
        if found:
            raise InitializeError(
                "UnknownScheme", f"{scheme}:// is built in, and {named} adds it as well: uninstall that"
            )
        module, name = BUILT_IN[scheme]
        return getattr(importlib.import_module(module), name)
    if not found:
        known = ", ".join(sorted({*BUILT_IN, *(one.name.lower() for one in entry_points(group=GROUP))}))
        advice = "; the data cache runs with the image of Kubeflow Trainer's initializer" if scheme == "cache" else ""
        raise InitializeError(
            "UnknownScheme", f"no provider reads {scheme}://: use one of {known}, or install one{advice}"
        )
    if len(found) > 1:
        raise InitializeError("UnknownScheme", f"{scheme}:// is added by {named}: uninstall all but one")
    try:
        provider = found[0].load()
    except Exception as error:  # whatever a module of others raises
        raise InitializeError(
            "UnknownScheme", f"the provider of {scheme}:// in {named} cannot be loaded: {error}"
        ) from error
    if lacking := missing_parts(provider):
        raise InitializeError("UnknownScheme", f"the provider of {scheme}:// in {named} lacks {', '.join(lacking)}")
    return cast("ProviderClass", provider)


def _distribution(one: EntryPoint) -> str:
    return one.dist.name if one.dist else one.value
