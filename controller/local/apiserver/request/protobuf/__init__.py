# SPDX-License-Identifier: Apache-2.0
"""Request bodies in protobuf, which clients on controller-runtime send for built-in kinds.

`decode` turns one into the document that its JSON would be. Answers are always JSON, which such clients accept.
"""

from trainwright.controller.local.apiserver.request.protobuf.decoding import MEDIA_TYPE, decode
from trainwright.controller.local.apiserver.request.protobuf.wire import ProtobufError

__all__ = ["MEDIA_TYPE", "ProtobufError", "decode"]
