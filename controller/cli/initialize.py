# SPDX-License-Identifier: Apache-2.0
"""`trainwright initialize`: fetches a model or a data set into a folder."""

import argparse
import os

from trainwright.controller.initialize.run import run as initialize


def run(arguments: argparse.Namespace) -> int:
    return initialize(
        arguments.kind,
        os.environ,
        address=arguments.storage_uri,
        target=arguments.output,
        dry_run=arguments.dry_run,
        verify=arguments.verify,
    )
