# SPDX-License-Identifier: Apache-2.0
"""What is committed is what the schemas say; files are put in place all or none."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from tests.repository import documents
from trainwright.codegen import output
from trainwright.codegen.__main__ import EXIT_CANNOT_WRITE, EXIT_CHECK_FAILED, main, report_check
from trainwright.codegen.compiler import Compiled, compile_all
from trainwright.codegen.output import MARK

ROOT = Path(__file__).resolve().parents[3]


def test_generate_check_and_clean(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = compile_all(checkout)
    assert output.changes(ROOT, compiled.files) == [], "what is committed is not what the schemas say"

    def check() -> int:
        return report_check(compiled, output.changes(checkout, compiled.files))

    output.write(checkout, output.changes(checkout, compiled.files))
    assert check() == 0
    capsys.readouterr()

    models = checkout / "api/trainer/v1alpha1/models.py"
    models.write_text(models.read_text(encoding="utf-8").replace("class Metric(", "class Metrics("), encoding="utf-8")
    stale = checkout / "config/crd/old.yaml"
    stale.write_text(f"# {MARK}\n", encoding="utf-8")
    kept = checkout / "config/crd/ours.yaml"
    kept.write_text("# by hand\n", encoding="utf-8")
    assert check() == EXIT_CHECK_FAILED
    told = capsys.readouterr()
    assert "-class Metrics(Struct, kw_only=True):\n+class Metric(Struct, kw_only=True):\n" in told.out
    assert "api/trainer/v1alpha1/models.py, config/crd/old.yaml" in told.err

    assert len(output.changes(checkout, compiled.files)) == 2
    output.write(checkout, output.changes(checkout, compiled.files))
    assert check() == 0
    assert not stale.exists()
    assert kept.exists()


def test_kubernetes_types_may_refer_to_themselves(checkout: Path, edit: Callable[..., None]) -> None:
    # JSONSchemaProps is the one type that does; nothing of ours reaches it.
    line = "  - {type: core/v1/ConfigMap,"
    kind = "  - {type: apiextensions/v1/CustomResourceDefinition, plural: customresourcedefinitions, scope: Cluster}"
    edit("api/kubernetes/kinds.yaml", line, f"{kind}\n{line}")
    text = compile_all(checkout).files["api/kubernetes/apiextensions/v1/models.py"]
    module = ModuleType("apiextensions_v1")
    sys.modules[module.__name__] = module
    exec(compile(text, "models.py", "exec"), module.__dict__)
    (definition,) = documents(ROOT / "config/crd/trainer.kubeflow.org_trainjobs.yaml")
    made = msgspec.convert(definition, module.CustomResourceDefinition)
    assert msgspec.to_builtins(made) == definition
    copied = made.deepcopy()
    assert copied == made
    inner, copied_inner = (it.spec.versions[0].schema.open_api_v3_schema for it in (made, copied))
    assert inner.properties["spec"].properties["trainer"] is not copied_inner.properties["spec"].properties["trainer"]


def test_a_failing_write_leaves_the_old_files(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    old = tmp_path / "api/a.py"
    old.write_text("old", encoding="utf-8")
    (tmp_path / "api/folder").mkdir()
    files = {"api/a.py": "new", "api/folder": "a file cannot replace a folder", "api/z.py": "new"}
    pending = [output.FileChange(path, None, text) for path, text in files.items()]
    blocked = tmp_path / "api/folder.codegen-new"
    blocked.mkdir()
    with pytest.raises(OSError, match="folder"):
        output.write(tmp_path, pending)
    assert old.read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in (tmp_path / "api").iterdir()) == ["a.py", "folder", "folder.codegen-new"]


def test_an_interrupted_run_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "api").mkdir()
    old = tmp_path / "api/a.py"
    old.write_text("old", encoding="utf-8")
    write_text = Path.write_text

    def interrupted(path: Path, text: str, encoding: str) -> int:
        if path.name.startswith("z"):
            raise KeyboardInterrupt
        return write_text(path, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", interrupted)
    pending = [output.FileChange(path, None, "new") for path in ("api/a.py", "api/z.py")]
    with pytest.raises(KeyboardInterrupt):
        output.write(tmp_path, pending)
    assert old.read_text(encoding="utf-8") == "old"
    assert [path.name for path in (tmp_path / "api").iterdir()] == ["a.py"]


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    leftover = tmp_path / "api/a.py.codegen-new"
    leftover.write_text("half", encoding="utf-8")
    assert output.changes(tmp_path, {}) == []
    assert leftover.exists(), "looking for changes wrote"
    output.write(tmp_path, [])
    assert not leftover.exists()


def test_a_folder_in_the_way_is_told(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = Compiled(files={"api/new.py": "new\n"}, changes=[], unacknowledged=[], release={})
    monkeypatch.setattr("trainwright.codegen.__main__.compile_all", lambda *_, **__: compiled)
    (checkout / "api/new.py.codegen-new").mkdir()
    before = sorted(checkout.rglob("*"))
    assert main(["--root", str(checkout)]) == EXIT_CANNOT_WRITE
    assert "new.py.codegen-new'; no file was changed" in capsys.readouterr().err
    assert sorted(checkout.rglob("*")) == before
