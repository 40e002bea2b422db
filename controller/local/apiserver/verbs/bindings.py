# SPDX-License-Identifier: Apache-2.0
"""`pods/binding`: the scheduler gives a pod its node."""

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.chain import Admission
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import ServerResponse, write_options
from trainwright.controller.local.apiserver.schema.errors import not_supported, required
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites, track


class Bindings:
    """Serves bindings."""

    def __init__(self, writes: ResourceWrites, admission: Admission) -> None:
        self._writes = writes
        self._admission = admission

    async def create(self, call: RequestInfo) -> ServerResponse:
        """Bind a pod. Raises StatusError."""
        if call.request.method != "POST":
            raise errors.method_not_allowed()
        options = write_options(call.request, "CreateOptions")
        binding = {"kind": "Binding", "apiVersion": "v1", **bodies.read_plain(call, "Binding", "v1")}
        metadata.set_namespace(metadata.metadata_of(binding), call.namespace)
        binding = await self._admission.mutate(call, "CREATE", binding, None, options) or binding
        target, meta = binding.get("target") or {}, metadata.metadata_of(binding)
        node = str(target.get("name") or "")
        if meta.get("name") != call.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        found = []
        if target.get("kind") not in (None, "", "Node"):
            found.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
        if not node:
            found.append(required("target.name"))
        if found:
            # The real server does not classify these.
            raise errors.plain_internal(str(found[0]) if len(found) == 1 else f"[{', '.join(map(str, found))}]")
        await self._admission.validate(call, "CREATE", binding, None, options)

        def bind(live: Document) -> Document:
            uid = meta.get("uid")
            if uid and uid != live["metadata"]["uid"]:
                raise call.conflict(
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live['metadata']['uid']}"
                )
            return track(call, live, _bound(call, live, node, meta), options)

        await self._writes.change(call, bind, options)
        return ServerResponse.of(errors.status("Success", code=201), 201)


def _bound(call: RequestInfo, live: Document, node: str, meta: Document) -> Document:
    if live["metadata"].get("deletionTimestamp"):
        raise _conflict(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
    current = (live.get("spec") or {}).get("nodeName")
    if current:
        raise _conflict(call, f'pod {call.name} is already assigned to node "{current}"')
    if (live.get("spec") or {}).get("schedulingGates"):
        raise _conflict(call, f"pod {call.name} has non-empty .spec.schedulingGates")
    status = dict(live.get("status") or {})
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": times.format_time(call.now),
    }
    others = [entry for entry in status.get("conditions") or () if entry["type"] != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    made = {**live, "metadata": dict(live["metadata"]), "spec": {**live["spec"], "nodeName": node}, "status": status}
    for field in ("annotations", "labels"):
        if meta.get(field):
            made["metadata"][field] = {**(live["metadata"].get(field) or {}), **meta[field]}
    return made


def _conflict(call: RequestInfo, why: str) -> errors.StatusError:
    return errors.conflict("", "pods/binding", call.name, why)
