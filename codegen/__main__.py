# SPDX-License-Identifier: Apache-2.0
"""`python -m trainwright.codegen`: regenerates all files, or checks that they are up to date."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from trainwright.api import extras
from trainwright.codegen import output
from trainwright.codegen.definition import CompileError

_ROOT = Path(__file__).resolve().parents[1]


def _start_in_development_environment(missing: str) -> NoReturn:
    """Start the same command in .venv, which has the libraries of the compiler. That of `make run` has not: 130 MB."""
    venv, installer = _ROOT / ".venv", _ROOT / "hack" / "install.py"
    if not installer.is_file():
        raise SystemExit(f"error: the schema compiler needs {missing}: {extras.install(extras.missing('generate'))}")
    if Path(sys.prefix).resolve() == venv.resolve():
        raise SystemExit(f"error: .venv lacks {missing}: run `make install`, then this again")
    print(f"codegen: {sys.prefix} lacks {missing}: going on in .venv", file=sys.stderr, flush=True)
    if not (venv / "installed").exists() and (
        code := subprocess.run([sys.executable, installer], check=False).returncode
    ):
        raise SystemExit(code)
    python = venv / "bin" / "python"
    os.execv(python, [str(python), "-m", "trainwright.codegen", *sys.argv[1:]])  # noqa: S606 - in our place


try:
    from trainwright.codegen.compiler import Compiled, compile_all
    from trainwright.codegen.released import ACKNOWLEDGED, SchemaChange
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    _start_in_development_environment(str(error.name))

EXIT_CHECK_FAILED = 1
EXIT_WRONG_SCHEMA = 2
EXIT_CANNOT_WRITE = 3
EXIT_INTERRUPTED = 130

_DESCRIPTION = """\
Compile the schemas in api/ into models, CustomResourceDefinitions, JSON Schemas and reference pages.

exit codes:
  0  done, or nothing to do
  1  --check: a file is not up to date, or a change breaks users and is not acknowledged
  2  the schemas are invalid; nothing was written
  3  a file could not be written; no file was changed
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    root: Path = options.root
    try:
        compiled = compile_all(root, progress=lambda text: print(f"codegen: {text}", file=sys.stderr))
    except CompileError as error:
        error.report("codegen")
        return EXIT_WRONG_SCHEMA
    if options.release:
        compiled.files.update(compiled.release)
    pending = output.changes(root, compiled.files)
    if options.check:
        return report_check(compiled, pending)
    try:
        output.write(root, pending)
    except OSError as error:
        print(f"codegen: {error}; no file was changed", file=sys.stderr)
        return EXIT_CANNOT_WRITE
    if not options.release:
        _report(compiled.unacknowledged)
    seconds = time.monotonic() - started
    print(f"codegen: {len(compiled.files)} files, {len(pending)} changed, in {seconds:.1f} s")
    return 0


def report_check(compiled: Compiled, pending: list[output.FileChange]) -> int:
    """Print what `--check` found; returns the exit code."""
    output.report_stale(pending, "codegen", "make generate")
    _report(compiled.unacknowledged)
    if pending or compiled.unacknowledged:
        return EXIT_CHECK_FAILED
    print(
        f"codegen: {len(compiled.files)} files are up to date, {len(compiled.changes)} change(s) since the last release"
    )
    return 0


def _report(changes: list[SchemaChange]) -> None:
    for change in changes:
        print(change, file=sys.stderr)
    if changes:
        print(f"codegen: {len(changes)} change(s) must be undone, or acknowledged in {ACKNOWLEDGED}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainwright.codegen",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; show the files that are not up to date")
    mode.add_argument("--release", action="store_true", help="also make the current schemas the released ones")
    parser.add_argument("--root", type=Path, default=_ROOT, help="the checkout (default: the one of this program)")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("codegen: interrupted; run it again", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
