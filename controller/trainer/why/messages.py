# SPDX-License-Identifier: Apache-2.0
"""What other programs write into conditions, events and answers, as patterns, by the program that writes it.

The versions are those that are tried (docs/admins/versions.md). A newer one may word a message differently: `explain`
then quotes it, and its pattern here is what has to change. What launchers of training code write into their logs is in
`failures.last_words`.
"""

import re

# ---------------------------------------------------------------------- kube-apiserver 1.31 to 1.36

WEBHOOK_FAILED = re.compile(r'failed calling webhook "([^"]+)"')
WEBHOOK_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request: (.+)', re.DOTALL)
FORBIDDEN = re.compile(r'(?:User "([^"…]+)" )?cannot (get|list|watch|create|patch|update|delete) resource "([^"]+)"')
QUOTA_EXCEEDED = re.compile(r"exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: ([^;\n]+)")
QUOTA_UNCOUNTED = re.compile(r"status unknown for quota: ([^,\s]+), resources: (\S+)")
QUOTA_UNSPECIFIED = re.compile(r"failed quota: ([^:]+): must specify (.+)")
POD_SECURITY = re.compile(r'violates PodSecurity "([\w-]+):[^"]*": (.+)', re.DOTALL)
POD_SECURITY_LACKS = re.compile(r"must (?:set|not set) ([\w.]+(?:=[\w\"/]+)?)")
NO_ACCOUNT = re.compile(r'error looking up service account \S+?/(\S+?):|serviceaccount "([^"]+)" not found')
NO_PRIORITY_CLASS = re.compile(r"no PriorityClass with name (\S+) was found")
NO_RUNTIME_CLASS = re.compile(r'RuntimeClass "([^"]+)" not found')
LIMIT_RANGE = re.compile(
    r"(maximum|minimum) (\S+) usage per (\w+) is ([^,.\s]+)(?:, but (request|limit) is ([^\s,.\]]+))?",
)

# ---------------------------------------------------------------------- JobSet 0.10 to 0.12

NAME_TOO_LONG = re.compile("must be no more than 63|too long|will exceed 63")
FIRST_JOB = re.compile(r"first failed job: ([\w.-]+)")

# ---------------------------------------------------------------------- this manager, and its client

NAME_TAKEN = re.compile(r"(\w+) (\S+) (?:exists without a controller|is controlled by (\S+ \S+))")
NOT_SERVED = re.compile(r"(?:does not serve|no matches for kind) \"?(\w+)\"? (?:of|in version) \"?([\w./-]+)\"?")
BUILD_FAILED = re.compile(r"plugin (\S+): (.*)", re.DOTALL)

# ---------------------------------------------------------------------- kube-scheduler 1.31 to 1.36

NODES_REASON = re.compile(r"(\d+) ((?:(?!, \d+ ).)+)", re.DOTALL)
INSUFFICIENT = re.compile(r"Insufficient (\S+?)\.?$")
PREEMPTION = re.compile(r"\.? (?:no new claims to deallocate|preemption:)")
CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)')

# ---------------------------------------------------------------------- kubelet 1.31 to 1.36

VOLUME = re.compile(r'volume "([^"]+)"')
SOURCE_MISSING = re.compile(r'(configmap|secret) "([^"]+)" not found', re.IGNORECASE)
NO_KEY = re.compile(r"references non-existent (config|secret) key: (\S+)")
VARIABLE_KEY = re.compile(r"couldn't find key (\S+) in (ConfigMap|Secret) (\S+)")
POD_REFUSED = re.compile(
    r"UnexpectedAdmissionError|OutOf\w+|NodeAffinity|TopologyAffinityError|NodeShutdown|Preempting|PodOSSelector\w+|"
    r"UnsupportedPod\w*|SysctlForbidden|AppArmor",
)
"""Reasons of pods that their node did not take."""
PROBE_FAILED = re.compile(r"(Liveness|Startup) probe failed: ")
"""The event `Unhealthy` of a probe that ends its container; a readiness probe does not."""
PROBE_KILLED = re.compile(r"(?:Container (\S+) failed (?:liveness|startup) probe|Stopping container (\S+)$)")
"""The event `Killing`; the second form is of a container that does not start again."""
NODE_LOW = re.compile(r"node was low on resource: ([\w./-]+)")
CONTAINER_USED = re.compile(r"Container (\S+) was using (\S+?),")

# ---------------------------------------------------------------------- containerd, CRI-O, and registries

PULL_REFUSED = re.compile(
    r"\b(401|403|unauthorized|forbidden|authentication required|no basic auth|access denied|denied)\b",
    re.IGNORECASE,
)
IMAGE_ABSENT = re.compile(
    r"not found|manifest unknown|name unknown|does not exist|no such (?:image|manifest)|404", re.IGNORECASE
)
REGISTRY_SILENT = re.compile(
    r"time-?d? ?out|timeout|\b429\b|too ?many ?requests|\b50[0-9]\b|no such host|connection re(?:fused|set)|EOF|"
    r"temporary failure|unreachable|server misbehaving|handshake|service unavailable|deadline exceeded",
    re.IGNORECASE,
)
PULL_ANSWERS = (IMAGE_ABSENT, PULL_REFUSED, REGISTRY_SILENT)

# ---------------------------------------------------------------------- runc and crun

EXECUTABLE = re.compile(r'exec: "([^"]+)": (?:executable file not found|stat |no such file)')

# ---------------------------------------------------------------------- Kueue, up to 0.17

QUOTA_UNUSED = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
QUOTA_MAXIMUM = re.compile(
    r"insufficient quota for (?P<resource>[^\s,]+),? in flavor [^\s,]+, (?:"
    r"request > maximum capacity \((?P<asked>\S+) > (?P<most>[^\s)]+)\)|"
    r".*?podset request \((?P<podset>[^\s)]+)\) > maximum capacity \((?P<capacity>[^\s)]+)\))",
)
QUEUE_STOPPED = re.compile(r"is (?:inactive|stopped)|stop(?:ped|Policy)", re.IGNORECASE)
