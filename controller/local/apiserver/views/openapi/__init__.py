# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v3 of the local cluster, as far as clients use it: validation and merging before writes, `kubectl explain`.

`index` lists the documents, `document` makes one. They are made on demand; the caller keeps them by what they are made
of.
"""

from trainwright.controller.local.apiserver.views.openapi.documents import document, document_path, index
from trainwright.controller.local.apiserver.views.openapi.schemas import custom_model_name

__all__ = ["custom_model_name", "document", "document_path", "index"]
