# SPDX-License-Identifier: Apache-2.0
"""Lets other Python environments import `trainwright.progress` without a copy, and nothing else of this environment.

A folder with a package `trainwright`, whose only module is a link to the writer, goes to the end of PYTHONPATH.
"""

from contextlib import suppress
from pathlib import Path

import trainwright

FOLDER = "writer"
"""In the folder of the cluster."""
_PACKAGE = '''# SPDX-License-Identifier: Apache-2.0
"""The progress writer of the Trainwright that runs the local cluster."""

from pkgutil import extend_path

# An environment may have Trainwright itself: its other modules are found there.
__path__ = extend_path(__path__, __name__)
'''


def provide(folder: Path) -> str:
    """Make what is missing of the folder; returns it as an entry of PYTHONPATH. Blocks. Raises OSError."""
    package = folder / "trainwright"
    package.mkdir(mode=0o700, parents=True, exist_ok=True)
    init, module = package / "__init__.py", package / "progress.py"
    writer = Path(trainwright.__file__).with_name("progress.py")
    if not init.is_file() or init.read_text(encoding="utf-8") != _PACKAGE:
        init.write_text(_PACKAGE, encoding="utf-8")
    if not (module.is_symlink() and module.readlink() == writer):
        module.unlink(missing_ok=True)
        # Another pod may have made it meanwhile.
        with suppress(FileExistsError):
            module.symlink_to(writer)
    return str(folder)
