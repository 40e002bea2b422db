# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: I001 - one import for each module
"""How any controller runs: client, cache, work queue, controller, apply, manager. Knows no TrainJob.

The names below are the public ones; each lives in a module that says more. They are loaded when first used, so that a
program that needs one of them does not pay for the HTTP stack.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the list of the names, for type checkers and for `__getattr__`
    from trainwright.api.base import Object as Object, Resource as Resource
    from trainwright.api.conditions import set_condition as set_condition
    from trainwright.api.objects import Key as Key
    from trainwright.controller.runtime.app.app import App as App
    from trainwright.controller.runtime.app.context import Context as Context
    from trainwright.controller.runtime.apply.applier import (
        Action as Action,
        Applied as Applied,
        Applier as Applier,
        refuse_foreign as refuse_foreign,
    )
    from trainwright.controller.runtime.apply.compare import document_digest as document_digest
    from trainwright.controller.runtime.cache.cache import Cache as Cache
    from trainwright.controller.runtime.cache.store import Event as Event, EventType as EventType
    from trainwright.controller.runtime.cache.informer import Informer as Informer, Subscription as Subscription
    from trainwright.controller.runtime.certificates.authority import (
        KeyPair as KeyPair,
        certificate_pem as certificate_pem,
        issue_certificate as issue_certificate,
        key_pem as key_pem,
        make_authority as make_authority,
    )
    from trainwright.controller.runtime.certificates.configurations import (
        fetch_configuration as fetch_configuration,
        injection_target_of as injection_target_of,
        names_reached as names_reached,
        webhooks_by_url as webhooks_by_url,
    )
    from trainwright.controller.runtime.certificates.keeper import CertificateKeeper as CertificateKeeper
    from trainwright.controller.runtime.certificates.material import (
        CertificateMaterial as CertificateMaterial,
        CertificateVault as CertificateVault,
    )
    from trainwright.controller.runtime.certificates.rotation import (
        RotationPolicy as RotationPolicy,
        made_for_process as made_for_process,
    )
    from trainwright.controller.runtime.certificates.serving import ServingCertificate as ServingCertificate
    from trainwright.controller.runtime.client.client import Client as Client
    from trainwright.controller.runtime.client.config import (
        ClusterConfig as ClusterConfig,
        is_in_cluster as is_in_cluster,
        load_config as load_config,
    )
    from trainwright.controller.runtime.client.discovery import Discovery as Discovery
    from trainwright.controller.runtime.client.exec import CommandTimeout as CommandTimeout
    from trainwright.controller.runtime.client.http import HTTPTransport as HTTPTransport
    from trainwright.controller.runtime.client.limit import LimitedTransport as LimitedTransport
    from trainwright.controller.runtime.client.transport import (
        Request as Request,
        Response as Response,
        Stream as Stream,
        Transport as Transport,
        WebSocket as WebSocket,
    )
    from trainwright.controller.runtime.context import (
        ContextFilter as ContextFilter,
        Reconcile as Reconcile,
        current_reconcile as current_reconcile,
    )
    from trainwright.controller.runtime.controller.builder import Builder as Builder
    from trainwright.controller.runtime.controller.controller import (
        Backoff as Backoff,
        Controller as Controller,
        Done as Done,
        Result as Result,
        RetryAfter as RetryAfter,
    )
    from trainwright.controller.runtime.controller.finalizer import finalizer as finalizer
    from trainwright.controller.runtime.controller.sources import (
        Predicate as Predicate,
        Trigger as Trigger,
        WAITED as WAITED,
        all_of as all_of,
        annotations_changed as annotations_changed,
        any_of as any_of,
        generation_changed as generation_changed,
        keys_of_owner as keys_of_owner,
        labels_changed as labels_changed,
        labels_match as labels_match,
        none_of as none_of,
        own_key as own_key,
        resource_version_changed as resource_version_changed,
    )
    from trainwright.controller.runtime.errors import (
        AlreadyExists as AlreadyExists,
        ApiError as ApiError,
        BadRequest as BadRequest,
        CacheError as CacheError,
        CertificateError as CertificateError,
        ConfigurationError as ConfigurationError,
        Conflict as Conflict,
        ConnectionLost as ConnectionLost,
        DecodeError as DecodeError,
        ErrorCause as ErrorCause,
        Forbidden as Forbidden,
        Gone as Gone,
        Invalid as Invalid,
        KubernetesError as KubernetesError,
        LeadershipLost as LeadershipLost,
        NoClusterError as NoClusterError,
        NotCached as NotCached,
        NotControlled as NotControlled,
        NotFound as NotFound,
        NotLeading as NotLeading,
        NotSynced as NotSynced,
        OutputTooLarge as OutputTooLarge,
        RequestTimeout as RequestTimeout,
        ServerError as ServerError,
        Terminal as Terminal,
        TokenRefused as TokenRefused,
        TokensUnavailable as TokensUnavailable,
        TooLarge as TooLarge,
        TooManyRequests as TooManyRequests,
        TransportError as TransportError,
        Unauthorized as Unauthorized,
        Unreachable as Unreachable,
        is_namespace_ending as is_namespace_ending,
    )
    from trainwright.controller.runtime.metrics.series import LabelledCounter as LabelledCounter
    from trainwright.controller.runtime.metrics.registry import EventCollector as EventCollector, OVERFLOW as OVERFLOW
    from trainwright.controller.runtime.events.recorder import EventRecorder as EventRecorder
    from trainwright.controller.runtime.kinds import Kind as Kind, KindOf as KindOf, MetadataOnly as MetadataOnly
    from trainwright.controller.runtime.collector import (
        freeze_collector as freeze_collector,
        tune_collector as tune_collector,
    )
    from trainwright.controller.runtime.leaderelection.candidate import Candidate as Candidate, LeaseLock as LeaseLock
    from trainwright.controller.runtime.leaderelection.elector import LeaderElector as LeaderElector
    from trainwright.controller.runtime.leaderelection.fence import Fence as Fence, Timing as Timing
    from trainwright.controller.runtime.leaderelection.statistics import ElectionStatistics as ElectionStatistics
    from trainwright.controller.runtime.manager.logs import configure_logging as configure_logging
    from trainwright.controller.runtime.manager.process import run as run
    from trainwright.controller.runtime.manager.manager import (
        NO_SERVERS as NO_SERVERS,
        Elector as Elector,
        Manager as Manager,
        ProcessSettings as ProcessSettings,
        ServerSettings as ServerSettings,
    )
    from trainwright.controller.runtime.manager.supervisor import GRACE_SECONDS as GRACE_SECONDS, Group as Group
    from trainwright.controller.runtime.lag import Pacer as Pacer
    from trainwright.controller.runtime.servers.access import BearerAccess as BearerAccess
    from trainwright.controller.runtime.servers.addresses import parse_address as parse_address
    from trainwright.controller.runtime.servers.bounded import (
        BodyIncomplete as BodyIncomplete,
        BodyTooLarge as BodyTooLarge,
        BoundedAnswer as BoundedAnswer,
        BoundedCall as BoundedCall,
        BoundedLimits as BoundedLimits,
        BoundedServer as BoundedServer,
    )
    from trainwright.controller.runtime.servers.http import listening as listening
    from trainwright.controller.runtime.tasks import (
        TaskScope as TaskScope,
        finished_in_thread as finished_in_thread,
        made_in_thread as made_in_thread,
        together as together,
    )
    from trainwright.controller.runtime.tokens.verifier import TokenVerifier as TokenVerifier, own_token as own_token
    from trainwright.controller.runtime.tokens.reviews import TokenMemory as TokenMemory
    from trainwright.controller.runtime.webhook.admission import (
        ALLOWED as ALLOWED,
        AdmissionHandler as AdmissionHandler,
        AdmissionRequest as AdmissionRequest,
        AdmissionResponse as AdmissionResponse,
        Mutating as Mutating,
        Validating as Validating,
        mutate_path as mutate_path,
        validate_path as validate_path,
    )
    from trainwright.controller.runtime.webhook.jsonpatch import json_patch as json_patch
    from trainwright.controller.runtime.webhook.reach import dry_run_proof as dry_run_proof
    from trainwright.controller.runtime.webhook.review import (
        MalformedReview as MalformedReview,
        ReviewRequest as ReviewRequest,
        ReviewResponse as ReviewResponse,
        passed_through as passed_through,
        read_review as read_review,
        write_review as write_review,
    )
    from trainwright.controller.runtime.webhook.webhooks import (
        ByURL as ByURL,
        CertificateFolder as CertificateFolder,
        SharedCertificates as SharedCertificates,
        Webhooks as Webhooks,
        certificates_for as certificates_for,
    )
    from trainwright.controller.runtime.workqueue.limiters import (
        Capped as Capped,
        ExponentialLimiter as ExponentialLimiter,
        FastSlowLimiter as FastSlowLimiter,
        Limiter as Limiter,
        MaxOf as MaxOf,
        TokenBucket as TokenBucket,
    )
    from trainwright.controller.runtime.workqueue.queue import LOW_PRIORITY as LOW_PRIORITY, WorkQueue as WorkQueue
else:
    from trainwright.api.facade import lazy

    __getattr__, __dir__ = lazy(__name__, __file__)
