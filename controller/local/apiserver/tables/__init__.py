# SPDX-License-Identifier: Apache-2.0
"""Tables (for now: names)."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.call import Call


def table(call: Call, documents: list[Document], metadata: Document, version: str) -> Document:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}],
        "rows": [{"cells": [document["metadata"]["name"]], "object": document} for document in documents],
    }
