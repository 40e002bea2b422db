# SPDX-License-Identifier: Apache-2.0
"""One type for whatever an object holds, of built-in kinds and of CRDs; whoever reads or writes objects walks it.

`model` compiles types: those of built-in kinds from three generated tables (what kube-apiserver publishes, what Go's
structs say, the numbers of protobuf fields), those of custom resources from their schema. `go_json` decodes and
normalizes documents as Go does. Begin with `model.Type`.
"""
