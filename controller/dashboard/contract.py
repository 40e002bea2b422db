# SPDX-License-Identifier: Apache-2.0
"""What the dashboard's page reads: every answer and every event, as msgspec structs.

`tests/unit/dashboard/samples` has examples. Names are camelCase on the wire. Every field is always present;
a value that is not known is null, a text that is not known is empty.

**Requests.** All are GET but those that change something; any other method is answered 405.

- `/?token=T`: 303 to `/` with the cookie. Every other path needs the cookie, else 403.
- `/` and `/<file>`: the files of `page/`; `/` is `index.html`. A link to a job is a fragment, such as `/#/ns/name`.
- `/proof?nonce=N`: text; needs no cookie. The HMAC-SHA256 of the nonce with `PageSession.proof_key`, in hexadecimal: a
  page that lost the dashboard asks for it before it sends its cookie again, since another program may have taken the
  port.
- `/api/v1/session`: `PageSession`.
- `/api/v1/jobs`: `JobList`.
- `/api/v1/jobs/stream`: events `snapshot` (`JobList`), `rows` (`Rows`), `connection` (`Connection`), `heartbeat`,
  `bye`.
- `/api/v1/jobs/{namespace}/{name}`: `Job`.
- `/api/v1/jobs/{namespace}/{name}/stream`: events `job` (`Job`), `points` (`Points`), `gone` (`JobGone`), `connection`,
  `heartbeat`, `bye`.
- `/api/v1/jobs/{namespace}/{name}/series`: `JobSeries`.
- `/api/v1/jobs/{namespace}/{name}/actions`: `Actions`.
- POST `/api/v1/jobs/{namespace}/{name}/actions/{action}?uid=U`: `ActionDone`. Actions are `stop`, `resume`, `delete`
  and `again` (a new job of the same spec). The request has its Origin, and the header
  `X-Trainwright-Action: <PageSession.action_token>`.
- `/api/v1/jobs/{namespace}/{name}/objects`: `views.rendered.ObjectsView`. Slow: ask for it when it is opened.
- `/api/v1/searches/{namespace}/{name}`: `searches.Search`, of an OptimizationJob. Ask again while it is `Running`.
- `/api/v1/compare`: `JobComparison`. Parameter `job`, `namespace/name`, once for each job, at most 24.
- `/api/v1/compare/csv`: the same for spreadsheets, as a file. Parameters `high` and `low`: metrics of which that value
  is the best one, where their names do not say so.
- `/api/v1/jobs/{namespace}/{name}/lines`: `Lines`. Parameters: `pod` (a name, or `*` for all ranks merged by time),
  `container`, `previous` (`true`), `attempt` (with `*`); `from` (negative: from the end) and `count` (at most 2000);
  `known` (wait for other than so many lines, for ten seconds at most).
- `/api/v1/jobs/{namespace}/{name}/lines/find`: `Found`. Parameters as for `/lines`, and `text`.
- `/api/v1/jobs/{namespace}/{name}/lines/file`: the whole log as a text file to keep.

Every answer that is not 2xx or 3xx has a `PageProblem` as its body.

**Streams** are server-sent events; `data` is one JSON document. It begins with `snapshot` or `job`, which replaces
what the page holds. `heartbeat` (`Heartbeat`) comes at least every 15 seconds: a page that sees none for 45 seconds has
lost the dashboard. `bye` comes when the dashboard is stopped. Browsers open at most six connections to one address,
over all windows: open one stream for a page, and close it while the page is hidden.

**Text** comes from training code, from users and from the cluster. It may hold any character. It is never HTML.

**Times** are RFC 3339 in UTC, with `Z`. Every answer has `now`, the clock of the dashboard; count from that one, and
not from the clock of the browser.
"""

from typing import Literal, TypeAlias

import msgspec

from trainwright.controller.views.explanation import ExplanationView, ReferenceView
from trainwright.plugins.contract import JobState

HEARTBEAT_SECONDS = 15.0
SPARK_POINTS = 32
"""Most values of a sparkline."""

ContainerState: TypeAlias = Literal["waiting", "running", "terminated", "unknown"]
ConnectionState: TypeAlias = Literal["connecting", "live", "lost", "forbidden", "unauthorized", "missing"]
"""connecting: the first list has not arrived. lost: the API server does not answer; what is shown is old. forbidden:
the user may not list TrainJobs there. unauthorized: the credentials are invalid or have expired. missing: the cluster
has no TrainJobs (the CustomResourceDefinition is not installed). The dashboard tries again in every state."""


class PageAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Common to all structs here."""


# --------------------------------------------------------------------------------------------------------- common parts


class PageProblem(PageAnswer):
    """Why a request was not answered."""

    code: int
    """HTTP status."""
    reason: str
    """A stable word: `Forbidden` (the user lacks the right), `NoToken` (the cookie is missing or wrong), `ForeignHost`,
    `ForeignOrigin`, `NotFound`, `BadRequest`, `MethodNotAllowed`, `Unauthorized` (the user's credentials have expired),
    `Unavailable` (the API server does not answer), `TooManyStreams`, `InternalError`."""
    message: str
    """One or two sentences for the user: what failed and what to do."""


class PageSession(PageAnswer):
    """Answer of `/api/v1/session`: what a page needs to come back, and to change something."""

    proof_key: str
    """See `/proof`. Empty: there is none, do not ask."""
    action_token: str
    """The header `X-Trainwright-Action` of a POST."""
    command: str
    """What the user types if the dashboard does not answer any more."""


class Connection(PageAnswer):
    """How the dashboard stands with the API server."""

    state: ConnectionState
    message: str
    """A sentence for the user: what failed, and what to do. Empty while the state is `live` or `connecting`."""
    since: str
    """Time at which it entered this state."""
    last_contact: str | None
    """Time of the last answer of the API server. What is shown is as of then."""


class Heartbeat(PageAnswer):
    """Event `heartbeat`, and event `bye`."""

    now: str


# -------------------------------------------------------------------------------------------------------- list of jobs


class RemainingView(PageAnswer):
    """Time to go. To show it between two events, count from `now` towards `at`."""

    seconds: int
    """At the time `now` of the answer: reported seconds, less the age of the report; 0 or more."""
    late: bool
    """The time has passed by 20 % (and by 10 seconds at least), and the job still runs. Show `late`."""
    at: str
    """When the job would end."""
    late_at: str
    """From when on it is late."""
    source: Literal["report", "history"]
    """`report`: the training told it. `history`: from the slope of the percentage; show `~`."""


class Spark(PageAnswer):
    """The course of one metric, for a small drawing."""

    metric: str
    """Its name: `loss`, or the first metric whose name ends so."""
    value: str
    """The last value, as it was reported: may be `NaN`, `Infinity`, or no number."""
    points: list[float]
    """At most SPARK_POINTS finite numbers, oldest first; each is the mean of its part. Empty or one: draw nothing."""


class Runtime(PageAnswer):
    kind: str
    """`ClusterTrainingRuntime` or `TrainingRuntime`."""
    name: str


class JobRow(PageAnswer):
    """One job in the list. `namespace` and `name` are its key."""

    namespace: str
    name: str
    uid: str
    """Differs if a job was deleted and created again under its name."""
    state: JobState
    reason: str
    """Reason of the condition that the state comes from; empty if it comes from none."""
    message: str
    """Message of that condition."""
    failure: list[str]
    """Why the job failed: the exception, then which rank and how. Empty: it has not failed, or that is not known."""
    stalled: str
    """Reason of the condition `Stalled` while it is True: `NoReport`, `NeverReported`, `NoAdvance`. Else empty."""
    stalled_message: str
    waiting: str
    """Reason of the condition `Waiting` while it is True, such as `InsufficientCpu`: why the job does not train. Needs
    a manager with the gate `Explain`; `Job.explanation` needs none."""
    deleting: bool
    """The job is being deleted."""
    percentage: int | None
    """0 to 100, as reported; below 100 until the job has ended."""
    remaining: RemainingView | None
    """Only while the job runs, and not once the rank that reports is done: nothing tells when the others are."""
    last_report: str | None
    """When the training sent its last report, by its own clock. Null: never."""
    step: float | None
    total_steps: float | None
    epoch: float | None
    total_epochs: float | None
    loss: Spark | None
    nodes: int | None
    """`spec.trainer.numNodes`. Null: the runtime decides."""
    runtime: Runtime
    created: str | None
    finished: str | None
    """When it became Complete or Failed."""
    managed_by: str
    """The controller that works on the job, if it is not Trainwright or Kubeflow Trainer. Else empty."""
    search: str
    """The OptimizationJob whose trial the job is. Empty: none."""
    attempt: int | None
    """The present attempt, or the last one; 1 for the first. Null: not known, as without the right to list JobSets."""
    parameters: dict[str, str]
    """Arguments and variables of the training, as a comparison shows them. Secrets are hidden."""


class Cluster(PageAnswer):
    """What the dashboard looks at."""

    context: str
    """Context of the kubeconfig; empty inside a cluster."""
    server: str
    """Address of the API server."""
    namespace: str
    """The namespace that is shown. Empty: all."""


class JobList(PageAnswer):
    now: str
    cluster: Cluster
    connection: Connection
    jobs: list[JobRow]
    """In no order that means anything."""
    undecodable: list[ReferenceView]
    """Jobs that do not fit the API, so that nothing more is known of them."""


class Rows(PageAnswer):
    """Event `rows`: what changed since the last event of the stream. At most four a second."""

    now: str
    changed: list[JobRow]
    """New and changed jobs."""
    deleted: list[ReferenceView]


# ------------------------------------------------------------------------------------------------------------- one job


class Moment(PageAnswer):
    """One entry of the time line."""

    at: str
    """When it happened; of several times, the last."""
    first: str
    """The first time."""
    count: int
    """How often; 1 or more."""
    source: Literal["training", "condition", "event"]
    """`training`: what the training did, such as start, checkpoint, end. The others are what Kubernetes says."""
    severity: Literal["normal", "warning"]
    reason: str
    message: str
    object: ReferenceView


class ContainerView(PageAnswer):
    name: str
    init: bool
    """An init container."""
    state: ContainerState
    reason: str
    """Such as `CrashLoopBackOff`, `OOMKilled`, `Completed`."""
    message: str
    restarts: int
    exit_code: int | None
    """Of the last run that ended."""
    signal: int | None
    started: str | None
    log: bool
    """It has a log: it has started."""
    previous_log: bool
    """The run before has one."""


class UsageView(PageAnswer):
    """What a pod uses now. Null: it is not known."""

    cpu: float | None
    """CPUs."""
    memory: int | None
    """Bytes."""
    gpu: float | None
    """GPUs that are busy, as a fraction of those that it has: 1.5 for two of which one is busy half of the time."""
    gpu_memory: int | None
    """Bytes."""


class Pod(PageAnswer):
    """One pod of the job, present or earlier."""

    name: str
    uid: str
    replicated_job: str
    """The JobSet's replicated job: `node`, `launcher`, `dataset-initializer` ..."""
    rank: int
    """Completion index in its Job, which is the node rank of the training."""
    who: str
    """How messages call the pod, such as `rank 3`."""
    attempt: int | None
    """1 for the first. Null: not known."""
    current: bool
    """It belongs to the present attempt."""
    phase: str
    """`Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`; `Terminating` while it is being deleted."""
    reason: str
    """Why it is in that phase, such as `Unschedulable`, `ImagePullBackOff`, `Evicted`."""
    message: str
    node: str
    """Name of the node; empty: not scheduled."""
    restarts: int
    """Of all its containers."""
    created: str | None
    containers: list[ContainerView]
    usage: UsageView | None = None
    """Null: the cluster has no metrics of it."""


class AttemptView(PageAnswer):
    """One attempt of the training, of those of which something is known."""

    number: int
    """1 for the first."""
    failure: "FailureView | None"
    """What failed first. Null: nothing has failed, or it was not recorded."""


class FailureView(PageAnswer):
    """The container that failed first in an attempt."""

    pod: str
    container: str
    who: str
    """How messages call the pod."""
    exit_code: int | None
    reason: str
    message: str
    finished: str | None
    log: list[str]
    """The last lines of its log, kept when the pod may be gone."""


class MetricView(PageAnswer):
    """One metric of the last report."""

    name: str
    value: str
    """As reported: may be `NaN`, `Infinity`, or no number."""
    number: float | None
    """The value, if it is a finite number."""


class UnreadPart(PageAnswer):
    """A part of the answer that is empty or incomplete because it could not be read."""

    part: Literal["job", "pods", "events", "attempts", "explanation", "history", "objects"]
    message: str
    """What could not be read and why, such as `no right to list pods in namespace team-a`."""


class Job(PageAnswer):
    now: str
    cluster: Cluster
    connection: Connection
    row: JobRow
    attempt: int | None
    """How many attempts have begun. Null: not known."""
    most_attempts: int | None
    """How many the JobSet's failure policy allows. Null: not known, or it depends on the causes of failures to come."""
    suspended: bool
    """`spec.suspend`."""
    timeline: list[Moment] = []
    """Latest first."""
    pods: list[Pod] = []
    """By replicated job, replica, rank; those of earlier attempts included."""
    attempts: list[AttemptView] = []
    """Oldest first."""
    metrics: list[MetricView] = []
    """In the order of the report."""
    explanation: ExplanationView | None = None
    """Null: see `unread`."""
    unread: list[UnreadPart] = []


class Actions(PageAnswer):
    allowed: list[str]
    """Of `stop`, `resume`, `delete`, `again`: what the user may do with jobs of the namespace."""


class ActionDone(PageAnswer):
    message: str
    namespace: str
    name: str
    """The new job; empty: there is none."""


class JobGone(PageAnswer):
    """Event `gone`: the job was deleted. The stream stays open: a new job of that name sends `job` again."""

    now: str
    namespace: str
    name: str


# ---------------------------------------------------------------------------------------------------------- log lines


class Lines(PageAnswer):
    """Answer of `/lines`: a range of a log. Entry i of each list belongs to one line."""

    total: int
    """Lines of the log so far. A line never changes its number."""
    first: int
    """Number of the first line of the answer, from 0."""
    texts: list[str]
    times: list[str]
    """When the line was written, by the clock of the node."""
    sources: list[int]
    """Index into `names`."""
    names: list[str]
    """The ranks whose lines are merged, such as `rank 0`."""
    reading: bool
    """What is there already is still being read: `total` grows fast, and lines are not final."""
    follows: bool
    """More lines may come."""
    problems: list[str]
    """What could not be read and why."""
    cut: bool
    """The log is larger than the dashboard reads; its end is missing."""


class Found(PageAnswer):
    total: int
    """Lines that were searched."""
    lines: list[int]
    """Numbers of the lines that contain the text, at most 10,000."""
    more: bool
    """There are more of them."""
