# SPDX-License-Identifier: Apache-2.0
"""The writer as a copy: alone, on old Pythons, pasted into a script or a function, sent through a shell."""

import ast
import inspect
import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.repository import ROOT
from tests.unit.progress.reporters import ENVIRONMENT, serving
from trainwright import progress
from trainwright.progress import read

SOURCE = (ROOT / "trainwright" / "progress.py").read_text()
TRAIN = """
with Reporter(total=4) as reporter:
    for step in range(1, 5):
        reporter.update(step=step, loss=1 / step, metrics={"text": "x"})
with open(os.environ["TRAINWRIGHT_PROGRESS_FILE"]) as stream:
    assert read(stream.read()).time.tzinfo is not None
"""


def interpreters() -> list[str]:
    """This Python, and the others from 3.9 on that the machine has: on the path, or installed by pyenv."""
    names = ("python3.9", "python3.10", "python3.12", "python3.13", "python3.14", "pypy3")
    # Shims of pyenv lead to versions that are looked for below, or nowhere, and each takes a tenth of a second for it.
    found = [path for name in names if (path := shutil.which(name)) and Path(path).parent.name != "shims"]
    installed = sorted((Path.home() / ".pyenv" / "versions").glob("3.*"))
    found += [str(one / "bin" / "python") for one in installed if int(one.name.split(".")[1]) >= 9]
    program = "import platform; print(platform.python_implementation(), platform.python_version())"
    versions = {platform.python_implementation() + " " + platform.python_version(): sys.executable}
    for path in found:
        done = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            versions.setdefault(done.stdout.strip(), path)
    return list(versions.values())


def run(command: list[str], folder: Path) -> None:
    """Run a training in an environment without this package; its file must say that it has completed."""
    environment = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    environment.pop("PYTHONPATH", None)
    environment[progress.FILE] = str(folder / "progress.json")
    if push := environment.get("PUSH"):
        environment[progress.SERVER_URL] = push
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    report = read((folder / "progress.json").read_bytes())
    assert (report.state, report.percentage, report.step) == ("completed", 100, 4)


def test_it_is_python_3_9() -> None:
    """The syntax, and what was new in 3.10; `hack/check` looks for what is newer, which is all that pyright knows."""
    ast.parse(SOURCE, feature_version=(3, 9))
    for node in ast.walk(ast.parse(SOURCE)):
        # Unions of types are evaluated in signatures, and Python 3.9 has none.
        for annotation in _annotations(node):
            assert not any(isinstance(inner, ast.BinOp) for inner in ast.walk(annotation)), ast.unparse(annotation)


def test_it_needs_nothing_that_python_3_10_brought() -> None:
    """Of the modules that it imports; https://docs.python.org/3/whatsnew/3.10.html has the list."""
    tree = ast.parse(SOURCE)
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    assert {"register_at_fork", "Mapping", "suppress"} <= names
    new = {"aiter", "anext", "EncodingWarning", "bit_count", "aclosing", "pairwise", "orig_argv", "stdlib_module_names"}
    new |= {"getprofile", "gettrace", "eventfd", "splice", "NoneType", "UnionType", "EllipsisType"}
    new |= {"ParamSpec", "Concatenate", "TypeAlias", "TypeGuard", "is_typeddict", "get_annotations"}
    assert names & new == set()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert {word.arg for call in calls for word in call.keywords} & {"strict", "slots", "kw_only", "root_dir"} == set()
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in {"isinstance", "issubclass"}:
            assert not isinstance(call.args[1], ast.BinOp), ast.unparse(call)


def _annotations(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.arg):
        return [node.annotation] if node.annotation else []
    if isinstance(node, ast.FunctionDef):
        return [node.returns] if node.returns else []
    if isinstance(node, ast.ClassDef):
        return [inner.annotation for inner in node.body if isinstance(inner, ast.AnnAssign)]
    return []


def test_it_imports_the_standard_library_only() -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    frameworks = {"transformers", "lightning", "pytorch_lightning", "torchtune"}
    assert frameworks < imported
    assert imported - frameworks <= sys.stdlib_module_names


def test_the_import_is_cheap() -> None:
    """No framework, no HTTP, no TLS before they are needed; `make bench` prints the time."""
    program = "import sys; before = set(sys.modules); import progress; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, cwd=ROOT / "trainwright", capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"ssl", "http.client", "urllib.parse", "logging", "asyncio", "dataclasses", "pathlib"})
    assert len(loaded) < 60


@pytest.mark.parametrize("interpreter", interpreters())
def test_a_copy_beside_a_script(tmp_path: Path, interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "progress.py").write_text(SOURCE)
    (tmp_path / "train.py").write_text("import os\nfrom progress import Reporter, read\n" + TRAIN)
    with serving() as server:
        monkeypatch.setenv("PUSH", server.url)
        run([interpreter, "-S", "-W", "error", "train.py"], tmp_path)
    assert server.reports[-1]["progressPercentage"] == 100


def test_pasted_into_a_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE + TRAIN)
    run([sys.executable, "-S", "train.py"], tmp_path)


def through_shell(function: str, call: str, folder: Path) -> list[str]:
    """The command that the Kubeflow SDK (0.5.0) makes of the source of a function and a call."""
    script = folder / "train.py"
    text = f"read -r -d '' SCRIPT << EOM\n\n{textwrap.dedent(function)}\n{call}\n\nEOM\n"
    text += f'printf "%s" "$SCRIPT" > "{script}"\n"{sys.executable}" -S "{script}"'
    # The limit of Linux for one argument.
    assert len(text.encode()) < 128 * 1024
    return ["bash", "-c", text]


def test_pasted_into_a_function_that_the_sdk_sends(tmp_path: Path) -> None:
    function = "def train():\n" + textwrap.indent(SOURCE + TRAIN, "    ")
    run(through_shell(function, "train()", tmp_path), tmp_path)
    assert (tmp_path / "train.py").read_text().strip() == f"{function.rstrip()}\n\ntrain()".strip()


def train(writer: str) -> None:
    """What docs/users/progress.md shows: the source of the writer is an argument of the function."""
    import types  # noqa: PLC0415 - the source of the function is all that is sent

    module = types.ModuleType("progress")
    exec(writer, module.__dict__)
    with module.Reporter(total=4) as reporter:
        for step in range(1, 5):
            reporter.update(step=step)


def test_sent_as_an_argument_of_a_function_that_the_sdk_sends(tmp_path: Path) -> None:
    arguments = {"writer": inspect.getsource(progress)}
    run(through_shell(inspect.getsource(train), f"train(**{arguments})", tmp_path), tmp_path)


def test_what_a_shell_would_change_is_not_in_the_text() -> None:
    assert {character for character in chr(92) + "$`" if character in SOURCE} == set()
    assert "\nEOM\n" not in SOURCE
    assert SOURCE.isascii()


def test_the_names_that_are_public() -> None:
    assert sorted(progress.__all__) == progress.__all__
    missing = [name for name in progress.__all__ if not (getattr(progress, name).__doc__ or "").strip()]
    assert missing == []
    assert json.dumps(progress.__all__)
