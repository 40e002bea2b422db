# SPDX-License-Identifier: Apache-2.0
"""An operator as one module: decorated functions, their rights, and the command that runs them. Begin with `app`."""
