# SPDX-License-Identifier: Apache-2.0
"""What the tests can find, measured: small defects are planted in copies of the repository, and tests look for them."""
