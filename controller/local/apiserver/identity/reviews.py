# SPDX-License-Identifier: Apache-2.0
"""The endpoints of identity: TokenRequests, TokenReviews, and the reviews of users and of access.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/ and
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from dataclasses import dataclass
from datetime import timedelta

from trainwright.api import times
from trainwright.api.objects import Document, uid_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest, Chain
from trainwright.controller.local.apiserver.authorization.authorizer import Attributes, Authorizer
from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.identity.tokens import AccountTokens, InvalidTokenError, TokenAuthenticator
from trainwright.controller.local.apiserver.kinds.metadata import metadata_of, set_namespace
from trainwright.controller.local.apiserver.kinds.rules import check
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.info import (
    RequestInfo,
    ServerResponse,
    User,
    user_info,
    write_options,
)
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.apiserver.verbs.reads import shown
from trainwright.controller.local.apiserver.verbs.writes import track
from trainwright.controller.local.types.errors import invalid

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_PATH, _RESOURCE = "nonResourceAttributes", "resourceAttributes"
_DEFAULT_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 3600, 600, 2**32
"""Lives of tokens."""


def read_review(call: RequestInfo) -> Document:
    """The review in the body, with managed fields. Raises StatusError."""
    if call.name:
        raise errors.no_such_resource()
    if call.request.method != "POST" or (call.resource.namespaced and not call.namespace):
        raise errors.method_not_allowed()
    call.negotiate()
    options = write_options(call.request, "CreateOptions")
    document = bodies.read_object(call, options)
    document.setdefault("metadata", {})
    document.setdefault("spec", {})
    return track(call, None, document, options)


@dataclass(eq=False, slots=True)
class Reviews:
    """Answers TokenRequests and reviews; `serve_identity` says which method serves which endpoint.

    `admission` refuses requests in namespaces that do not exist. Webhooks are not asked.
    """

    _store: ObjectStore
    _tokens: AccountTokens
    _authenticator: TokenAuthenticator
    _authorizer: Authorizer
    _admission: Chain

    async def review_token(self, call: RequestInfo) -> ServerResponse:
        """Tell whose a token is. Raises StatusError."""
        review = read_review(call)
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
        return shown(call, review, 201)

    async def review_self(self, call: RequestInfo) -> ServerResponse:
        """Serve a SelfSubjectReview. Raises StatusError."""
        read_review(call)
        metadata = {"creationTimestamp": times.format_time(call.now)}
        return shown(call, _review(call, metadata=metadata, status={"userInfo": user_info(call.user)}), 201)

    async def review_access(self, call: RequestInfo) -> ServerResponse:
        """Serve a SubjectAccessReview, SelfSubjectAccessReview or LocalSubjectAccessReview. Raises StatusError."""
        review = read_review(call)
        set_namespace(review["metadata"], call.namespace)
        found = check(f"{_AUTHORIZATION}/v1 {call.kind}", review)
        if found:
            # kube-apiserver names no kind here.
            raise errors.invalid(call.group, "", "", found)
        decision = self._authorizer.decide(_attributes(call, review["spec"]))
        review["status"] = {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})
        return shown(call, review, 201)

    async def review_rules(self, call: RequestInfo) -> ServerResponse:
        """Serve a SelfSubjectRulesReview. Raises StatusError."""
        review = read_review(call)
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
        return shown(call, _review(call, metadata={}, spec={}, status=status), 201)

    async def request_token(self, call: RequestInfo) -> ServerResponse:
        """Issue a token. Raises StatusError."""
        if call.request.method != "POST":
            raise errors.method_not_allowed()
        call.negotiate()
        options = write_options(call.request, "CreateOptions")
        request = bodies.read_object(call, options)
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
        if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
            wrong = invalid("spec.expirationSeconds", seconds, f"must be from {_LEAST_SECONDS} to {_MOST_SECONDS}")
            raise errors.invalid(_AUTHENTICATION, "TokenRequest", "", [wrong])
        bound = self._bound(call, spec["boundObjectRef"])
        moment = call.now.replace(microsecond=0)
        meta["creationTimestamp"] = times.format_time(moment)
        request["status"] = {
            "token": self._tokens.issue(account, bound, seconds=seconds, audiences=spec["audiences"]),
            "expirationTimestamp": times.format_time(moment + timedelta(seconds=seconds)),
        }
        return shown(call, request, 201)

    def _account(self, call: RequestInfo, meta: Document) -> Document:
        if meta.get("name") and meta["name"] != call.name:
            wrong = invalid("metadata.name", meta["name"], "must match the service account name if specified")
            raise errors.invalid(_AUTHENTICATION, "TokenRequest", call.name, [wrong])
        account = self._store.document("serviceaccounts", call.name, call.namespace)
        if account is None:
            raise call.not_found()
        uid = uid_of(account)
        if meta.get("uid") and meta["uid"] != uid:
            why = f"the UID in the token request ({meta['uid']}) does not match the UID of the service account ({uid})"
            raise errors.conflict(_AUTHENTICATION, "TokenRequest", call.name, why)
        meta["name"], meta["uid"] = call.name, uid
        return account

    def _bound(self, call: RequestInfo, reference: Document | None) -> dict[str, Document]:
        """The pod that a reference leads to, and its node. Raises StatusError."""
        if reference is None:
            return {}
        version, kind, name = reference.get("apiVersion"), reference.get("kind") or "", reference.get("name") or ""
        if (version, kind) != ("v1", "Pod"):
            raise errors.bad_request(f"cannot bind token to object of type {version}, Kind={kind}")
        pod = self._store.document("pods", name, call.namespace)
        if pod is None:
            raise errors.not_found("", "pods", name)
        spec = pod.get("spec") or {}
        if (spec.get("serviceAccountName") or "") != call.name:
            raise errors.bad_request(
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
        if reference.get("uid") and reference["uid"] != uid_of(pod):
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict("", kind, name, why)
        if not spec.get("nodeName"):
            return {"pod": pod}
        node = self._store.document("nodes", spec["nodeName"])
        return {"pod": pod, "node": {"metadata": {"name": spec["nodeName"]}} if node is None else node}


def _review(call: RequestInfo, **fields: Document) -> Document:
    return {"kind": call.kind, "apiVersion": call.resource.api_version, **fields}


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


def serve_identity(
    server: APIServer,
    tokens: AccountTokens,
    authenticator: TokenAuthenticator,
    authorizer: Authorizer,
    admission: Chain,
) -> None:
    """Serve TokenRequests and all reviews; `Reviews` says what the arguments are."""
    serve, reviews = server.register_handler, Reviews(server.store, tokens, authenticator, authorizer, admission)
    serve("", "serviceaccounts", "token", reviews.request_token)
    serve(_AUTHENTICATION, "tokenreviews", "", reviews.review_token)
    serve(_AUTHENTICATION, "selfsubjectreviews", "", reviews.review_self)
    for name in ("subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews"):
        serve(_AUTHORIZATION, name, "", reviews.review_access)
    serve(_AUTHORIZATION, "selfsubjectrulesreviews", "", reviews.review_rules)
