# SPDX-License-Identifier: Apache-2.0
"""`pods/eviction`: a deletion that could be refused by a disruption budget. There are no budgets here.

https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

from dataclasses import replace

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.chain import Admission
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import ServerResponse, write_options
from trainwright.controller.local.apiserver.verbs.deletes import Deletes, check_preconditions, checked_options
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites

_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "lastProbeTime": None,
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


class Evictions:
    """Serves evictions.

    Args:
        writes: note the eviction.
        deletes: without admission. As in kube-apiserver, webhooks are asked about the eviction and not the deletion.
        admission: of evictions.
    """

    def __init__(self, writes: ResourceWrites, deletes: Deletes, admission: Admission) -> None:
        self._writes = writes
        self._deletes = deletes
        self._admission = admission

    async def create(self, call: RequestInfo) -> ServerResponse:
        """Note the eviction in the pod's status and delete the pod, with its grace period. Raises StatusError."""
        if call.request.method != "POST":
            raise errors.method_not_allowed()
        options = write_options(call.request, "CreateOptions")
        eviction = bodies.read_object(call, options.validation)
        metadata.set_namespace(metadata.metadata_of(eviction), call.namespace)
        eviction = await self._admission.mutate(call, "CREATE", eviction, None, options) or eviction
        if metadata.metadata_of(eviction).get("name") != call.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        await self._admission.validate(call, "CREATE", eviction, None, options)
        wanted = checked_options(eviction.get("deleteOptions") or {})
        pod = replace(call, subresource="")
        if options.dry_run or wanted.dry_run:
            wanted = replace(wanted, dry_run=True)
        else:

            def note(live: Document) -> Document:
                check_preconditions(pod, wanted, live["metadata"])
                return _with_condition(pod, live)

            # Nothing is awaited before the deletion: a client that goes must not leave a pod that is only noted.
            self._writes.begin_change(pod, note, options)
            wanted = replace(wanted, version=None)  # The note changed it.
        await self._deletes.delete(pod, wanted)
        return ServerResponse.of(errors.status("Success", code=201), 201)


def _with_condition(call: RequestInfo, pod: Document) -> Document:
    status = pod.get("status") or {}
    found = [one for one in status.get("conditions") or () if one["type"] == _CONDITION["type"]]
    if any({**one, **_CONDITION} == one for one in found):
        return pod
    others = [one for one in status.get("conditions") or () if one not in found]
    condition = {**_CONDITION, "lastTransitionTime": times.format_time(call.now)}
    return {**pod, "status": {**status, "conditions": [*others, condition]}}
