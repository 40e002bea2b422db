# SPDX-License-Identifier: Apache-2.0
"""`python -m trainwright.codegen`: regenerate everything, or check that nothing would change."""

import argparse
import sys
import time
from pathlib import Path

from trainwright.codegen import output
from trainwright.codegen.compiler import compile_all
from trainwright.codegen.problems import CompileError

EXIT_DRIFT = 1
EXIT_WRONG_SCHEMA = 2


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0: done; 1: `--check` found drift; 2: the schemas are wrong, nothing was written."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    root: Path = options.root
    try:
        files = compile_all(root, progress=lambda text: print(f"codegen: {text}", file=sys.stderr))
    except CompileError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        print(f"codegen: {len(error.problems)} problem(s); nothing was written", file=sys.stderr)
        return EXIT_WRONG_SCHEMA
    pending = output.changes(root, files)
    if options.check:
        return _report_drift(pending, len(files))
    output.write(root, pending)
    seconds = time.monotonic() - started
    print(f"codegen: {len(files)} files, {len(pending)} changed, in {seconds:.1f} s")
    return 0


def _report_drift(pending: list[output.Change], count: int) -> int:
    for change in pending:
        print(change.diff(), end="")
    if pending:
        names = ", ".join(change.path for change in pending)
        print(f"codegen: not up to date, run `make generate`: {names}", file=sys.stderr)
        return EXIT_DRIFT
    print(f"codegen: {count} files are up to date")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainwright.codegen",
        description="Compile the schemas in api/ into models, CustomResourceDefinitions, docs and editor schemas.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; show what is not up to date and exit 1")
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=root, help="the checkout (default: the one this program lies in)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
