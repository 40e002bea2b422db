# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies.strategy import Strategy, set_or_drop


class DefinitionStrategy(Strategy):
    """The strategy of CustomResourceDefinitions."""

    unconditional_update = False

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = str(names.get("kind") or "")
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, document: Document) -> None:
        document["metadata"]["generation"] = 1
        document["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        storage = [version["name"] for version in document["spec"].get("versions") or () if version.get("storage")]
        document["status"]["storedVersions"] = storage

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            set_or_drop(new, "spec", old.get("spec"))
            return
        set_or_drop(new, "status", old.get("status"))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
