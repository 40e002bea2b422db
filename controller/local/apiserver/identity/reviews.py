# SPDX-License-Identifier: Apache-2.0
"""The endpoints of identity: TokenRequests, TokenReviews, and the reviews of users and of access.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/ and
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from datetime import timedelta

from trainwright.api import times
from trainwright.api.objects import Document, uid_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest, Chain
from trainwright.controller.local.apiserver.authorization.authorizer import Attributes, Authorizer
from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.identity.tokens import AccountTokens, InvalidTokenError, TokenAuthenticator
from trainwright.controller.local.apiserver.kinds.metadata import metadata_of, set_namespace
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.info import (
    RequestInfo,
    ServerResponse,
    User,
    negotiate,
    user_info,
    write_options,
)
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.apiserver.verbs.reads import shown
from trainwright.controller.local.apiserver.verbs.writes import track
from trainwright.controller.local.apiserver.views.negotiation import MediaTypeOptions
from trainwright.controller.local.types.errors import DocumentError, invalid

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_PATH, _RESOURCE = "nonResourceAttributes", "resourceAttributes"
_DEFAULT_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 3600, 600, 2**32
"""Lives of tokens."""


def read_review(call: RequestInfo) -> tuple[Document, MediaTypeOptions]:
    """The review in the body, with managed fields, and the form of the answer. Raises StatusError."""
    if call.name:
        raise errors.no_such_resource()
    if call.request.method != "POST" or (call.resource.namespaced and not call.namespace):
        raise errors.method_not_allowed()
    wanted = negotiate(call)
    options = write_options(call.request, "CreateOptions")
    document = bodies.read_object(call, options.validation)
    document.setdefault("metadata", {})
    document.setdefault("spec", {})
    return track(call, None, document, options), wanted


class TokenReviewServer:
    """Serves TokenReviews."""

    def __init__(self, authenticator: TokenAuthenticator) -> None:
        self._authenticator = authenticator

    async def create(self, call: RequestInfo) -> ServerResponse:
        """Tell whose a token is. Raises StatusError."""
        review, wanted = read_review(call)
        spec = review["spec"]
        if not spec.get("token"):
            raise errors.bad_request("token is required for TokenReview in authentication")
        try:
            found = self._authenticator.identify(spec["token"], spec.get("audiences") or ())
        except InvalidTokenError as error:
            review["status"] = {"user": {}, "error": str(error)}
        else:
            user = user_info(found.user)
            review["status"] = {"authenticated": True, "user": user, "audiences": list(found.audiences)}
        return shown(call, review, wanted, 201)


async def review_self(call: RequestInfo) -> ServerResponse:
    """Serve a SelfSubjectReview. Raises StatusError."""
    _, wanted = read_review(call)
    review = {
        "kind": call.kind,
        "apiVersion": call.resource.api_version,
        "metadata": {"creationTimestamp": times.format_time(call.now)},
        "status": {"userInfo": user_info(call.user)},
    }
    return shown(call, review, wanted, 201)


class AccessReviews:
    """Serves them.

    Args:
        authorizer: of the server.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def access(self, call: RequestInfo) -> ServerResponse:
        """Serve a SubjectAccessReview, SelfSubjectAccessReview or LocalSubjectAccessReview. Raises StatusError."""
        review, wanted = read_review(call)
        set_namespace(review["metadata"], call.namespace)
        found = _access_errors(call, review)
        if found:
            # kube-apiserver names no kind here.
            raise errors.invalid(call.group, "", "", found)
        decision = self._authorizer.decide(_attributes(call, review["spec"]))
        status: Document = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        review["status"] = status
        return shown(call, review, wanted, 201)

    async def rules(self, call: RequestInfo) -> ServerResponse:
        """Serve a SelfSubjectRulesReview. Raises StatusError."""
        review, wanted = read_review(call)
        namespace = review["spec"].get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        found = self._authorizer.rules(call.user, namespace)
        status: Document = {
            "resourceRules": [_without(rule, "nonResourceURLs") for rule in found.rules if rule.get("resources")],
            "nonResourceRules": [
                {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in found.rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }
        if found.problem:
            status["evaluationError"] = found.problem
        made = {
            "kind": call.kind,
            "apiVersion": call.resource.api_version,
            "metadata": {},
            "spec": {},
            "status": status,
        }
        return shown(call, made, wanted, 201)


def _without(rule: Document, field: str) -> Document:
    return {key: value for key, value in rule.items() if key != field}


def _attributes(call: RequestInfo, spec: Document) -> Attributes:
    """What a review asks about."""
    user = call.user
    if call.kind != "SelfSubjectAccessReview":
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
    path = spec.get(_PATH)
    if path is not None:
        return Attributes(user=user, verb=path.get("verb") or "", is_resource=False, path=path.get("path") or "")
    asked = spec[_RESOURCE]
    return Attributes(
        user=user,
        verb=asked.get("verb") or "",
        group=asked.get("group") or "",
        resource=asked.get("resource") or "",
        subresource=asked.get("subresource") or "",
        namespace=asked.get("namespace") or "",
        name=asked.get("name") or "",
    )


def _access_errors(call: RequestInfo, review: Document) -> list[DocumentError]:
    """In the order of kube-apiserver."""
    spec, meta = review["spec"], review["metadata"]
    path, resource = spec.get(_PATH), spec.get(_RESOURCE)
    found: list[DocumentError] = []
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        found.append(invalid(f"spec.{_PATH}", path, why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(invalid(f"spec.{_RESOURCE}", None, why))
    if call.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    allowed = {"managedFields"} | ({"namespace"} if call.namespace else set())
    if any(value for field, value in meta.items() if field not in allowed):
        found.append(invalid("metadata", meta, f"must be empty{' except for namespace' if call.namespace else ''}"))
    if call.namespace:
        asked = (resource or {}).get("namespace") or ""
        if resource is not None and asked != call.namespace:
            found.append(invalid(f"spec.{_RESOURCE}.namespace", asked, "must match metadata.namespace"))
        if path is not None:
            found.append(invalid(f"spec.{_PATH}", path, "disallowed on this kind of request"))
    return found


class TokenRequests:
    """Serves TokenRequests.

    Args:
        store: of accounts, and of what tokens are bound to.
        tokens: issues them.
        admission: refuses requests in namespaces that do not exist.
    """

    def __init__(self, store: ObjectStore, tokens: AccountTokens, admission: Chain) -> None:
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
        await self._admission.mutate(AdmissionRequest(call, "CREATE", request, None, options))
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
            raise errors.invalid(
                _AUTHENTICATION, "TokenRequest", call.name, [invalid("metadata.name", meta["name"], why)]
            )
        stored = self._store.get("serviceaccounts", call.key)
        if stored is None:
            raise call.not_found()
        account = stored.document()
        uid = uid_of(account)
        if meta.get("uid") and meta["uid"] != uid:
            why = f"the UID in the token request ({meta['uid']}) does not match the UID of the service account ({uid})"
            raise errors.conflict(_AUTHENTICATION, "TokenRequest", call.name, why)
        meta["name"], meta["uid"] = call.name, uid
        return account

    def _bound(self, call: RequestInfo, reference: Document | None) -> dict[str, Document]:
        """By kind, what a reference leads to. Raises StatusError."""
        if reference is None:
            return {}
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if reference.get("apiVersion") != "v1" or kind not in ("Pod", "Node", "Secret"):
            raise errors.bad_request(f"cannot bind token to object of type {reference.get('apiVersion')}, Kind={kind}")
        plural = f"{kind.lower()}s"
        stored = self._store.get(plural, ObjectName("" if kind == "Node" else call.namespace, name))
        if stored is None:
            raise errors.not_found("", plural, name)
        found = stored.document()
        bound = {kind.lower(): found}
        if kind == "Pod":
            bound |= self._node_of(call, found)
        if reference.get("uid") and reference["uid"] != uid_of(found):
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict("", kind, name, why)
        return bound

    def _node_of(self, call: RequestInfo, pod: Document) -> dict[str, Document]:
        spec = pod.get("spec") or {}
        if (spec.get("serviceAccountName") or "") != call.name:
            raise errors.bad_request(
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
        if not spec.get("nodeName"):
            return {}
        node = self._store.get("nodes", ObjectName("", spec["nodeName"]))
        return {"node": {"metadata": {"name": spec["nodeName"]}} if node is None else node.document()}


def _check_seconds(seconds: int) -> None:
    field = "spec.expirationSeconds"
    if seconds < _LEAST_SECONDS:
        found = invalid(field, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > _MOST_SECONDS:
        found = invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")
    else:
        return
    raise errors.invalid(_AUTHENTICATION, "TokenRequest", "", [found])


def serve_identity(
    server: APIServer,
    tokens: AccountTokens,
    authenticator: TokenAuthenticator,
    authorizer: Authorizer,
    admission: Chain,
) -> None:
    """Serve TokenRequests and all reviews.

    Args:
        server: serves them.
        tokens: issues the tokens.
        authenticator: of the server; TokenReviews ask it.
        authorizer: of the server; access reviews ask it.
        admission: refuses requests in namespaces that do not exist. Webhooks are not asked.
    """
    serve = server.register_handler
    serve("", "serviceaccounts", "token", TokenRequests(server.store, tokens, admission).create)
    serve(_AUTHENTICATION, "tokenreviews", "", TokenReviewServer(authenticator).create)
    serve(_AUTHENTICATION, "selfsubjectreviews", "", review_self)
    reviews = AccessReviews(authorizer)
    for name in ("subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews"):
        serve(_AUTHORIZATION, name, "", reviews.access)
    serve(_AUTHORIZATION, "selfsubjectrulesreviews", "", reviews.rules)
