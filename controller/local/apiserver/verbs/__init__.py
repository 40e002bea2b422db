# SPDX-License-Identifier: Apache-2.0
"""What is done with objects: read, list, watch, create, replace, patch, apply, delete, and the subresources.

`endpoints` takes a request to its verb; PUT, PATCH and apply differ in the transform that they hand to `writes`, which
admits, validates and stores. Begin with `Endpoints.serve`.
"""
