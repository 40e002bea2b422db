# SPDX-License-Identifier: Apache-2.0
"""Lives timelines: our whole manager in virtual time, and a test that stands for JobSet, nodes, users and pods."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import yaml

from tests.builders import condition, counts, ended, pod
from tests.lined import difference
from tests.timelines.commands import answer
from tests.timelines.format import Case
from tests.virtual_trainer import SPACE, VirtualTrainer
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, dig
from trainwright.api.times import format_time
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.runtime.errors import ErrorCause, error_type
from trainwright.controller.trainer.failures.record import Entry, entries_of
from trainwright.controller.trainer.progress.metrics import ReadResult
from trainwright.controller.trainer.recovery.verdict import KEY
from trainwright.plugins.testing import runtime_document

SETTLE_SECONDS = 0.5
"""From what is done until what follows is looked at."""
_LOG = re.compile(r"/pods/([^/]+)/log$")
_EXEC = re.compile(r"/pods/([^/]+)/exec$")
_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


class Timeline:
    """One case."""

    def __init__(self, trainer: VirtualTrainer, case: Case) -> None:
        self.trainer, self.case = trainer, case
        self._cluster, self._stored = trainer.cluster, trainer.stored
        self._logs: dict[tuple[str, str], str | None] = {}
        self._read: list[int] = []
        self._given: dict[str, Mapping[str, Any]] = {}
        """What the timeline says of each pod."""
        self._commands: list[str] = []
        self._told = 0
        self._jobset = ""
        self._calls: dict[str, list[tuple[float, str]]] = {}
        self._answer = self._cluster.world.server.handle
        self._cluster.world.server.handle = self._handle  # type: ignore[method-assign]

    def live(self) -> None:
        """All of it. Raises AssertionError with file and line."""
        if self.case.runtime:
            self._do_runtime(self.case.runtime)
        for part in {name for step in self.case.steps for name in step.expect.get("writes", ())}:
            self._calls[part] = self._cluster.requests(part)
        self._do_nodes({"gpu-1": True, "gpu-2": True})
        self._do_start()
        begin = self._cluster.seconds
        for name, value in self.case.first.items():
            getattr(self, f"_do_{name}")(value)
        self.trainer.job(**self.case.job)
        for step in self.case.steps:
            self._stored.advance(max(0.0, begin + step.at - self._cluster.seconds))
            for name, value in step.do.items():
                getattr(self, f"_do_{name}")(value)
            self._stored.advance(SETTLE_SECONDS)
            self._collect()
            for name, wanted in step.expect.items():
                wrong = getattr(self, f"_wrong_{name}")(wanted)
                assert not wrong, f"{step.where}: at {step.at:g} s: {name}: {wrong}"

    def _collect(self) -> None:
        """Let a JobSet go whose pods are gone, as the garbage collector does."""
        held = self._stored.get("jobset", "job", SPACE)
        if held is not None and "deletionTimestamp" in held["metadata"] and not self._stored.list("pod", SPACE):
            self._stored.patch("jobset", "job", {"metadata": {"finalizers": None}}, SPACE)
            self._stored.advance(SETTLE_SECONDS)

    # ------------------------------------------------------------------ what happens

    def _do_start(self, _: bool = True) -> None:
        sections = msgspec.convert(self.case.manager, Configuration)
        self.trainer.start(**{name: value for name in sections.__struct_fields__ if (value := getattr(sections, name))})

    def _do_stop(self, _: bool = True) -> None:
        self._cluster.stop(self.trainer.replica)

    def _do_kill(self, _: bool) -> None:
        self._cluster.kill(self.trainer.replica)

    def _do_clock(self, ahead: float) -> None:
        self._cluster.world.set_clock(self.trainer.replica, ahead)

    def _do_restart(self, _: bool) -> None:
        self._do_stop()
        self._do_start()

    def _do_job(self, fields: Mapping[str, Any]) -> None:
        self.trainer.job(**fields)

    def _do_patch(self, patch: Document) -> None:
        self._stored.patch("trainjob", "job", patch, SPACE)

    def _do_status(self, status: Document) -> None:
        if status.get("conditions"):
            status = {**status, "conditions": self._conditions(status["conditions"])}
        self._stored.patch("trainjob", "job", {"status": status}, SPACE, subresource="status")

    def _conditions(self, reasons: Mapping[str, str]) -> list[Document]:
        """Those that the job has, and these; a reason that is empty takes one away."""
        held = [one for one in dig(self.trainer.found, "status.conditions") or () if one["type"] not in reasons]
        return [*held, *(condition(kind, reason=said, at=self._cluster.now) for kind, said in reasons.items() if said)]

    def _do_report(self, given: Mapping[str, Any]) -> None:
        told = dict(given)
        percent, ago = told.pop("percent", None), told.pop("ago", 0)
        metrics = [{"name": name, "value": str(value)} for name, value in told.items()]
        status = {
            "lastUpdatedTime": self._time(ago),
            "metrics": metrics,
            **({} if percent is None else {"progressPercentage": percent}),
        }
        self._stored.patch("trainjob", "job", {"status": {"trainerStatus": status}}, SPACE, subresource="status")

    def _jobset_of(self) -> Document:
        return self._stored.wait("jobset", "job", namespace=SPACE)

    def _do_jobset(self, given: Mapping[str, Any]) -> None:
        told = dict(given)
        before = self._jobset_of().get("status") or {}
        status: Document = {"restarts": told.pop("restarts", before.get("restarts", 0))}
        if "counted" in told:
            status["restartsCountTowardsMax"] = told.pop("counted")
        for kind in ("Failed", "Completed"):
            if (reason := told.pop(kind.lower(), "")) != "":
                status["conditions"] = [condition(kind, reason=reason, at=self._cluster.now)]
        roles = told.pop("roles", {"node": told})
        if any(roles.values()):
            status["replicatedJobsStatus"] = [counts(name, **numbers) for name, numbers in roles.items()]
        self.trainer.jobset_status(status)

    def _do_pods(self, wanted: list[Mapping[str, Any]]) -> None:
        jobset = self._jobset_of()
        present = {one["metadata"]["name"]: one for one in self._stored.list("pod", SPACE)}
        for given in wanted:
            document = self._pod(given, jobset)
            name = document["metadata"]["name"]
            held = present.pop(name, None)
            if held is not None and not _is_same(held, document):
                self._remove(name)
                held = None
            if held is None:
                self._stored.create({key: value for key, value in document.items() if key != "status"})
            if given.get("deleted") and not (held or {}).get("metadata", {}).get("deletionTimestamp"):
                self._stored.delete("pod", name, SPACE, wait=False)
            self._stored.patch("pod", name, {"status": document["status"]}, SPACE, subresource="status")
        for name in present:
            self._remove(name)

    def _remove(self, pod_name: str) -> None:
        """The pod is gone: no node lets it end."""
        self._cluster.call(self._cluster.world.admin.delete(Pod, pod_name, SPACE, grace_period=0))

    def _pod(self, given: Mapping[str, Any], jobset: Document) -> Document:
        rank, role = given.get("rank", 0), given.get("role", "node")
        attempt = given.get("attempt", dig(jobset, "status.restarts") or 0)
        base = dig(jobset, "spec.replicatedJobs")[-1]["template"]["spec"]["template"].get("metadata") or {}
        name = f"job-{role}-0-{rank}"
        self._given[name] = given
        log = given.get("log", "")
        self._logs[name, ""] = log
        self._logs[name, "previous"] = given.get("previous", log)
        self._logs |= {(name, str(number)): text for number, text in enumerate(given.get("runs", ()))}
        state = given.get("state")
        if "code" in given:
            message = {"message": given["message"]} if "message" in given else {}
            state = ended(given["code"], at=self._time(given.get("ago", 0)), reason=given.get("reason", ""), **message)
        containers = given.get("containers") or [
            {"name": "node", "state": state or {"running": {"startedAt": self._time()}}, **given.get("container", {})}
        ]
        status = dict(given.get("status", {}))
        if "started" in given:
            status["startTime"] = self._time(given["started"])
        if given.get("disrupted"):
            status["conditions"] = [condition("DisruptionTarget", reason=given["disrupted"], at=self._cluster.now)]
        return pod(
            rank,
            job="job",
            role=role,
            namespace=SPACE,
            attempt=attempt,
            jobset_uid=jobset["metadata"]["uid"],
            containers=containers,
            phase=given.get("phase", ""),
            status=status,
            annotations={**(base.get("annotations") or {}), **given.get("annotations", {})},
            **{"nodeName": given.get("node", "gpu-1"), **given.get("spec", {})},
        )

    def _do_nodes(self, nodes: Mapping[str, bool]) -> None:
        for name, is_ready in nodes.items():
            if self._stored.get("node", name) is None:
                self._stored.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            ready = condition("Ready", "True" if is_ready else "Unknown", at=self._cluster.now)
            self._stored.patch("node", name, {"status": {"conditions": [ready]}}, subresource="status")

    def _do_delete(self, names: list[str]) -> None:
        for kind, name in (one.split("/") for one in names):
            self._stored.delete(kind, name, SPACE, wait=False)

    def _do_runtime(self, patch: Document) -> None:
        if self._stored.get("trainingruntime", "r", SPACE) is None:
            self._stored.create(runtime_document("r", namespace=SPACE))
        self._stored.patch("trainingruntime", "r", patch, SPACE)

    def _do_record(self, data: Document) -> None:
        self._stored.patch("configmap", "job-failures", {"data": data}, SPACE)

    def _do_late(self, kinds: Mapping[str, float]) -> None:
        for plural, seconds in kinds.items():
            self._cluster.delay_watches(plural, seconds)

    def _do_refuse(self, given: Mapping[str, Any]) -> None:
        code, reason = given["code"], given["reason"]
        causes = (ErrorCause(given["cause"], "", ""),) if "cause" in given else ()
        error = error_type(code, reason, causes)("no", code=code, reason=reason, causes=causes)
        self._cluster.refuse(given["call"], error, until=self._cluster.seconds + given["seconds"])

    def _time(self, ago: float = 0) -> str:
        return format_time(self._cluster.now - timedelta(seconds=ago))

    async def _handle(self, request: ServerRequest) -> ServerResponse:
        """Answer as the API server, and as the node where a log is read."""
        if found := _EXEC.search(request.path):
            command = request.all("command")
            self._commands.append(command[0])
            return answer(self._given[found[1]], command)
        found = _LOG.search(request.path)
        if found is None or request.method != "GET":
            return await self._answer(request)
        if request.param("limitBytes"):  # the recorder, and not who explains
            self._read.append(int(found[1].rpartition("-")[2]))
        run = request.param("run") or ("previous" if request.flag("previous") else "")
        text = self._logs.get((found[1], run))
        if text is None:
            return ServerResponse.of({"kind": "Status", "reason": "NotFound", "code": 404}, 404)
        return ServerResponse(body=text.encode(), content_type="text/plain")

    # ------------------------------------------------------------------ what follows

    def _wrong_conditions(self, wanted: Mapping[str, str]) -> str:
        held = dig(self.trainer.found, "status.conditions") or ()
        true = {one["type"]: one["reason"] for one in held if one["status"] == "True"}
        return difference(wanted, true) or difference(sorted(wanted), sorted(true))

    def _wrong_messages(self, wanted: Mapping[str, str]) -> str:
        held = dig(self.trainer.found, "status.conditions") or ()
        return difference(wanted, {one["type"]: one["message"] for one in held})

    def _wrong_status(self, wanted: Document) -> str:
        return difference(wanted, self.trainer.found.get("status") or {})

    def _wrong_events(self, wanted: list[str]) -> str:
        told = [f"{reason}: {note}" for _, reason, note in self.trainer.events]
        new, self._told = told[self._told :], len(told)
        return difference(wanted, new)

    def _wrong_jobset(self, wanted: Document | None) -> str:
        held = self._stored.get("jobset", "job", SPACE)
        return difference(wanted, held) if wanted is None or held is not None else "there is none"

    def _wrong_same_jobset(self, wanted: bool) -> str:
        before, self._jobset = self._jobset, self._jobset_of()["metadata"]["uid"]
        return difference(wanted, before == self._jobset)

    def _wrong_record(self, wanted: Mapping[int, Document] | None) -> str:
        held = self._stored.get("configmap", "job-failures", SPACE)
        if wanted is None or held is None:
            return difference(wanted, held)
        entries = {
            number + 1: {one.encode_name: getattr(entry, one.name) for one in msgspec.structs.fields(Entry)}
            for number, entry in entries_of(held["data"]).items()
        }
        return difference(wanted, entries) or difference(sorted(wanted), sorted(entries))

    def _wrong_recovery(self, wanted: Document) -> str:
        held = self._stored.get("configmap", "job-failures", SPACE) or {"data": {}}
        return difference(wanted, yaml.safe_load(held["data"].get(KEY, "{}")))

    def _wrong_logs_read(self, wanted: list[int]) -> str:
        new, self._read = self._read, []
        return difference(wanted, new)

    def _wrong_writes(self, wanted: Mapping[str, int]) -> str:
        made = {part: sum(method != "GET" for _, method in calls) for part, calls in self._calls.items()}
        for calls in self._calls.values():
            calls.clear()
        return difference(wanted, made)

    def _wrong_commands(self, wanted: list[str]) -> str:
        new, self._commands = self._commands, []
        return difference(wanted, new)

    def _wrong_reads(self, wanted: int) -> str:
        new, self._commands = self._commands, []
        return difference(wanted, len(new))

    def _wrong_results(self, wanted: Mapping[str, int]) -> str:
        sample = self.trainer.sample
        counted = {one.value: int(sample("trainer_progress_probes_total", result=one.value) or 0) for one in ReadResult}
        found = {name: count for name, count in counted.items() if count}
        return difference(wanted, found) or difference(sorted(wanted), sorted(found))

    def _wrong_gone(self, names: list[str]) -> str:
        return difference([], [name for name in names if self._is_there(name)])

    def _wrong_there(self, names: list[str]) -> str:
        return difference([], [name for name in names if not self._is_there(name)])

    def _is_there(self, what: str) -> bool:
        kind, name = what.split("/")
        return self._stored.get(kind, name, SPACE) is not None


def _is_same(held: Document, wanted: Document) -> bool:
    """Whether it is the same pod, and not one of a later attempt."""
    uid = "jobset.sigs.k8s.io/jobset-uid"
    one, other = held["metadata"]["labels"], wanted["metadata"]["labels"]
    return (one[_ATTEMPT], one.get(uid)) == (other[_ATTEMPT], other.get(uid))
