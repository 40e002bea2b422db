# SPDX-License-Identifier: Apache-2.0
"""Who asks, and the endpoints that tell it. Begin with `tokens`; `presets` are the first objects."""
