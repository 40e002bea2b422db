# SPDX-License-Identifier: Apache-2.0
"""`serviceaccounts/token`: tokens on request.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
"""

from datetime import timedelta

from trainwright.api import times
from trainwright.api.objects import Document, uid_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.chain import Admission
from trainwright.controller.local.apiserver.identity.accounts import AccountTokens, Bound
from trainwright.controller.local.apiserver.kinds.metadata import metadata_of, set_namespace
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo, negotiate
from trainwright.controller.local.apiserver.request.info import ServerResponse, write_options
from trainwright.controller.local.apiserver.schema.errors import invalid
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.apiserver.verbs.reads import shown
from trainwright.controller.local.apiserver.verbs.writes import track

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_DEFAULT_SECONDS = 3600
_LEAST_SECONDS = 600
_MOST_SECONDS = 2**32


class TokenRequests:
    """Serves TokenRequests.

    Args:
        store: of accounts, and of what tokens are bound to.
        tokens: issues them.
        admission: refuses requests in namespaces that do not exist.
    """

    def __init__(self, store: ObjectStore, tokens: AccountTokens, admission: Admission) -> None:
        self._store = store
        self._tokens = tokens
        self._admission = admission

    async def create(self, call: RequestInfo) -> ServerResponse:
        """Issue a token. Raises StatusError."""
        if call.request.method != "POST":
            raise errors.method_not_allowed()
        wanted = negotiate(call)
        options = write_options(call.request, "CreateOptions")
        request = bodies.read_object(call, options.validation)
        spec = request["spec"] = request.get("spec") or {}
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_SECONDS
        request = track(call, None, request, options)
        await self._admission.mutate(call, "CREATE", request, None, options)
        meta = metadata_of(request)
        set_namespace(meta, call.namespace)
        account = self._account(call, meta)
        spec["audiences"] = spec.get("audiences") or [self._tokens.issuer]
        spec.setdefault("boundObjectRef", None)
        seconds = spec["expirationSeconds"]
        _check_seconds(seconds)
        bound = self._bound(call, spec["boundObjectRef"])
        moment = call.now.replace(microsecond=0)
        meta["creationTimestamp"] = times.format_time(moment)
        request["status"] = {
            "token": self._tokens.issue(account, bound, seconds=seconds, audiences=spec["audiences"]),
            "expirationTimestamp": times.format_time(moment + timedelta(seconds=seconds)),
        }
        return shown(call, request, wanted, 201)

    def _account(self, call: RequestInfo, meta: Document) -> Document:
        if meta.get("name") and meta["name"] != call.name:
            why = "must match the service account name if specified"
            raise errors.invalid(_GROUP, _KIND, call.name, [invalid("metadata.name", meta["name"], why)])
        stored = self._store.get("serviceaccounts", call.key)
        if stored is None:
            raise call.not_found()
        account = stored.document()
        uid = uid_of(account)
        if meta.get("uid") and meta["uid"] != uid:
            why = f"the UID in the token request ({meta['uid']}) does not match the UID of the service account ({uid})"
            raise errors.conflict(_GROUP, _KIND, call.name, why)
        meta["name"], meta["uid"] = call.name, uid
        return account

    def _bound(self, call: RequestInfo, reference: Document | None) -> Bound:
        """What a reference leads to. Raises StatusError."""
        if reference is None:
            return Bound()
        group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if group or kind not in ("Pod", "Node", "Secret"):
            described = f"{group}/{version}, Kind={kind}"
            raise errors.bad_request(f"cannot bind token to object of type {described}")
        plural = f"{kind.lower()}s"
        stored = self._store.get(plural, ObjectName("" if kind == "Node" else call.namespace, name))
        if stored is None:
            raise errors.not_found("", plural, name)
        found = stored.document()
        bound = Bound(secret=found) if kind == "Secret" else Bound(node=found)
        if kind == "Pod":
            bound = self._bound_pod(call, found)
        if reference.get("uid") and reference["uid"] != uid_of(found):
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict("", kind, name, why)
        return bound

    def _bound_pod(self, call: RequestInfo, pod: Document) -> Bound:
        spec = pod.get("spec") or {}
        if (spec.get("serviceAccountName") or "") != call.name:
            raise errors.bad_request(
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
        node_name = spec.get("nodeName")
        if not node_name:
            return Bound(pod=pod)
        node = self._store.get("nodes", ObjectName("", node_name))
        return Bound(pod=pod, node={"metadata": {"name": node_name}} if node is None else node.document())


def _check_seconds(seconds: int) -> None:
    field = "spec.expirationSeconds"
    if seconds < _LEAST_SECONDS:
        found = invalid(field, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > _MOST_SECONDS:
        found = invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")
    else:
        return
    raise errors.invalid(_GROUP, _KIND, "", [found])
