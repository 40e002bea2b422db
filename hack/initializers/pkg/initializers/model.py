# SPDX-License-Identifier: Apache-2.0
"""The name by which the Kubeflow SDK starts this initializer, in the folder /app of the image."""

import sys

from trainwright.controller.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["initialize", "model"]))
