# SPDX-License-Identifier: Apache-2.0
"""Events for people who look at an object: recorded without waiting, put together, held within limits."""
