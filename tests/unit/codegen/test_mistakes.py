# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the schemas are reported at their line, all at once, and nothing is written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import cases
from trainwright.codegen import catalog, structural
from trainwright.codegen.__main__ import EXIT_WRONG_SCHEMA, main
from trainwright.codegen.definition import CompileError, Problems

Edit = Callable[..., None]
JOB = "api/trainer/v1alpha1/trainjob.yaml"
RUNTIME = "api/trainer/v1alpha1/trainingruntime.yaml"


def problems_of(checkout: Path) -> list[str]:
    problems = Problems()
    try:
        known = catalog.read(checkout / "api", problems)
        structural.check(known, problems)
        problems.stop_if_any()
    except CompileError as error:
        return [str(problem) for problem in error.problems]
    return []


def line_of(checkout: Path, file: str, text: str) -> int:
    lines = (checkout / file).read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    assert len(found) == 1, f"{text!r} is on lines {found}"
    return found[0]


def test_the_authored_schemas_are_right(checkout: Path) -> None:
    assert problems_of(checkout) == []


NODES = """\
      numNodes:
        description: Number of training nodes. Each node is one pod. The default is the runtime's number.
        type: integer
        format: int32
        minimum: 0
"""


def field(*words: str, mark: bool = True) -> str:
    """The field numNodes with these words. `#!` marks the line of the problem: the field's own if none has it."""
    own = " #!" if mark and not any("#!" in word for word in words) else ""
    return f"      numNodes:{own}\n" + "".join(f"        {word}\n" for word in words)


@pytest.mark.parametrize(("new", "message"), cases(__file__)["mistake"])
def test_mistake(checkout: Path, edit: Edit, new: list[str], message: str) -> None:
    """`new` are the lines in place of the field numNodes; `#!` marks the one that is told."""
    edit(JOB, NODES, "".join(f"{line}\n" for line in new))
    found = problems_of(checkout)
    where = f"{JOB}:{line_of(checkout, JOB, '#!')}: "
    assert any(problem.startswith(where) and message in problem for problem in found), (where, found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "progressPercentage\n        - name",
            "progressPercent #!\n        - name",
            "there is no field progressPercent",
        ),
        (".status.conditions[?", ".status.condition[?", "there is no field condition"),
        ("name: trainjobs.trainer", "name: trainjob.trainer", "must be trainjobs.trainer.kubeflow.org"),
        ("listKind: TrainJobList", "listKind: TrainJob", "kind and listKind must differ"),
    ],
)
def test_names_and_columns(checkout: Path, edit: Edit, old: str, new: str, message: str) -> None:
    edit(JOB, old, new)
    (problem,) = problems_of(checkout)
    assert message in problem
    line = (checkout / JOB).read_text(encoding="utf-8").splitlines()[int(problem.split(":")[1]) - 1]
    assert new.split("\n", maxsplit=1)[0] in line


QUOTED = "description: Number of training nodes. Each node is one pod. The default is the runtime's number."
VERSION, GROUP = "    - name: v1alpha1", "  group: trainer.kubeflow.org"
MEMBERS = "            metadata:\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (VERSION, "    - name: v1alpha2", "move the file to trainer/v1alpha2"),
        (VERSION, "    - name: v1", "version v1 is in the folder trainer/v1alpha1"),
        (
            f"trainjobs.trainer.kubeflow.org\nspec:\n{GROUP}",
            f"trainjobs.a.b\nspec:\n{GROUP[:9]}a.b",
            "in the folder of",
        ),
        (MEMBERS, f"            name: {{type: string}}\n{MEMBERS}", "attribute name, like a member of every kind"),
        ("  Metric:\n", "  Merge: {type: object}\n  Metric:\n", "a name that generated code uses"),
        ("$ref: RuntimePatch\n", "$ref: RuntimePatc\n", "$ref RuntimePatc leads nowhere"),
        ("$ref: Metric\n", "$ref: Metri\n", "$ref Metri leads nowhere"),
        (QUOTED, QUOTED.replace(": N", ": 'N"), "ends on line 228, before 's number.': close it"),
        (QUOTED, QUOTED.replace(": N", ': "N'), ":228: a quote begins here and is never closed"),
        ("singular: trainjob", "singular: TrainJob", "spec.names.singular: 'TrainJob' does not match"),
        (
            "singular: trainjob",
            "singular: trainjob\n    shortNames: [TJ]",
            "spec.names.shortNames.0: 'TJ' does not match",
        ),
        ("listKind: TrainJobList", "listKind: TrainJob List", "spec.names.listKind: 'TrainJob List' does not match"),
        ("name: Progress\n", "name: 'Progress\n", "a quote begins here and ends on line"),
    ],
)
def test_one_mistake_is_said_once(checkout: Path, edit: Edit, old: str, new: str, message: str) -> None:
    edit(JOB, old, new)
    (problem,) = problems_of(checkout)
    assert problem.startswith(f"{JOB}:")
    assert message in problem


def test_a_definition_that_refers_to_itself(checkout: Path, edit: Edit) -> None:
    edit(JOB, NODES, field("$ref: TrainJobSpec", mark=False))
    (problem,) = problems_of(checkout)
    assert "TrainJobSpec -> trainer.kubeflow.org/v1alpha1/Trainer -> " in problem
    assert "schemas cannot be recursive" in problem


def test_a_rule_of_a_definition_that_does_not_fit_where_it_is_used(checkout: Path, edit: Edit) -> None:
    edit(JOB, NODES, field("type: array", "items: {$ref: RuntimePatch}"))
    told = [problem for problem in problems_of(checkout) if "RuntimePatch" in problem]
    assert any("oldSelf cannot be used on the uncorrelatable portion" in problem for problem in told)


def test_all_mistakes_at_once(checkout: Path, edit: Edit) -> None:
    edit(JOB, NODES, NODES + "        default: x\n")
    edit(JOB, "        default: trainer.kubeflow.org/trainjob-controller\n", "        default: 5\n")
    edit(RUNTIME, "        default: OpenMPI\n", "        default: Other\n")
    edit(RUNTIME, "        $ref: TorchMLPolicySource\n", "        $ref: Torch\n")
    found = problems_of(checkout)
    assert len(found) == 4
    assert [problem.split(":")[0] for problem in found] == [RUNTIME, RUNTIME, JOB, JOB]
    assert "$ref Torch leads nowhere" in found.pop(0)
    assert 'default: Unsupported value: "Other"' in found[0]


def test_a_definition_twice(checkout: Path, edit: Edit) -> None:
    edit(RUNTIME, "  EnvInjection:\n", "  Metric:\n    type: object\n  EnvInjection:\n")
    assert problems_of(checkout) == [
        f"{JOB}:{line_of(checkout, JOB, '  Metric:')}: Metric: is already defined in {RUNTIME}"
    ]


def test_a_kind_needs_metadata(checkout: Path, edit: Edit) -> None:
    edit(
        JOB,
        "            metadata:\n              $ref: meta/v1/ObjectMeta\n",
        "            metadata:\n              type: object\n",
    )
    (problem,) = problems_of(checkout)
    assert "TrainJob.metadata: a kind must have this field as {'$ref': 'meta/v1/ObjectMeta'}" in problem


def test_overlay_of_a_field_that_kubernetes_has_not(checkout: Path, edit: Edit) -> None:
    edit("api/kubernetes/kinds.yaml", "{service: {default", "{servic: {default")
    (problem,) = problems_of(checkout)
    assert "overlay.core/v1/GRPCAction.servic: Kubernetes has no such field" in problem


def test_kubernetes_of_the_future(checkout: Path, edit: Edit) -> None:
    edit("api/kubernetes/kinds.yaml", 'kubernetesVersion: "1.36"', 'kubernetesVersion: "1.99"')
    (problem,) = problems_of(checkout)
    assert "no schemas of Kubernetes 1.99 are installed; installed are those of 1.25, 1.26" in problem


def test_not_a_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path)]) == EXIT_WRONG_SCHEMA
    assert "it has no authored.schema.json" in capsys.readouterr().err


def test_nothing_is_written(checkout: Path, edit: Edit, capsys: pytest.CaptureFixture[str]) -> None:
    edit(JOB, NODES, NODES + "        default: x\n")
    before = sorted(checkout.rglob("*"))
    assert main(["--root", str(checkout)]) == EXIT_WRONG_SCHEMA
    assert sorted(checkout.rglob("*")) == before
    assert "nothing was written" in capsys.readouterr().err


def test_help_says_what_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    told = capsys.readouterr().out
    assert "exit codes:" in told
    assert "--check" in told
