# SPDX-License-Identifier: Apache-2.0
"""What the end of a log says of a failure: the one line to quote, and whether it tells of a failure elsewhere.

Logs are foreign text. What a kubelet answers in place of a log is no log, and launchers write more after the program
has ended than the program itself: torchrun ends with a traceback of its own and a summary between rulers.
"""

import re
from collections.abc import Sequence

from trainwright.api.messages import plain
from trainwright.api.times import moment

_RULER = re.compile(r"[\W_]*")
"""A line without a letter or digit: a ruler, a box, or what is left of binary output."""
_NO_LOG = re.compile(
    r"unable to retrieve container logs for \S+"
    r'|failed to try resolving symlinks in path "[^"]*": .*'
    r'|failed to open log file "[^"]*": .*'
    r'|failed to get container status ".*": .*'
    r'|(?:previous terminated )?container "[^"]*" in pod "[^"]*" (?:is|not found).*'
    r"|rpc error: code = \w+ desc = (?:an error occurred when try to find container|could not find container).*"
)
"""What kubelets answer, with status 200, where they have no log."""
_ELSEWHERE = re.compile(
    r"connection (?:was |is )?(?:forcibly )?(?:closed|reset|aborted|refused|lost)|closed by (?:the )?(?:remote )?peer"
    r"|connection(?:reset|aborted|refused)error|\beconn(?:reset|aborted|refused)\b|broken ?pipe|socket closed"
    r"|peer (?:has )?(?:closed|disconnected|gone|died|exited)"
    r"|remote (?:process|peer|end) (?:has )?(?:exit|closed|gone|died)"
    r"|lost connection|lost communication|ncclremoteerror|collective operation timeout|watchdog .*tim(?:ed ?out|eout)"
    r"|heartbeat time(?:d )?out|rendezvous\w*(?:closed|timeout|connection)\w*|client socket has timed out"
    r"|(?:got|received) signal:? (?:15|sigterm)|unhealthy tasks|another task died|preempted by",
    re.IGNORECASE,
)
"""Words of a rank that failed since another one did, which it waited for or spoke to."""
_SUMMARY = re.compile(r"Root Cause \(first observed failure\):")
_FIELD = re.compile(r"(time|rank|exitcode|traceback)\s*:\s(.*)")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
LAUNCHER_SECONDS = 600.0
"""torchrun ends up to that long after its process: it waits for the other nodes first, for 300 s at most."""
_SIGNAL = re.compile(r"Signal (\d+) \((\w+)\)")
_AGENT = re.compile(r"torch[./]distributed[./](?:elastic|run|launcher)|torchelastic|Sending process \d+ closing signal")
"""Lines of torchrun itself."""
_AGENT_SAW = re.compile(r"failed \(exitcode: ")
_TRACEBACK = "Traceback (most recent call last):"
_PREFIX = re.compile(r"^\[(?:rank|default)\d+\]:\s*")
_RANK = re.compile(r"^\[(?:rank|default)\d+\]: ?")
"""The same without the indentation that follows."""
_EXCEPTION = re.compile(r"(?:\w+\.)*[A-Z_]\w*(?::(?: .*)?)?")
"""The line below the frames of a traceback of Python."""
_EXCEPTION_CODE = 1
"""The exit code of Python after an exception that nobody caught."""
_BUFFER = 8192
"""Characters that Python holds of its standard output where it is no terminal, and writes when it ends."""


def without_answers(lines: Sequence[str]) -> list[str]:
    """The lines of a log, without what a kubelet has answered at its end in place of a log."""
    kept = list(lines)
    while kept and (not kept[-1].strip() or _NO_LOG.fullmatch(kept[-1].strip())):
        kept.pop()
    return kept


def telling_line(lines: Sequence[str], exit_code: int | None = None) -> str:
    """The line that says most of the failure: mostly the last one; empty if there is none.

    `exit_code`: of the container, where it is known. It tells whether an exception of Python ended the program, whose
    line then goes before what was written after it.
    """
    own = without_answers(lines)
    told = [line for raw in own if (line := plain(raw).strip(" \t\n\ufffd")) if not _RULER.fullmatch(line)]
    if summed_up := _of_torchrun(told):
        return summed_up
    uncaught = _uncaught(own) if exit_code == _EXCEPTION_CODE else ""
    return uncaught or (told[-1] if told else "")


def program_ended(lines: Sequence[str], finished_at: str) -> str:
    """When the program ended that a container has started: torchrun's summary tells, else the container's own end.

    The summary has the local time of its container. One that does not fit to the end of the container is no UTC.
    """
    told = _MOMENT.match(_summary([plain(line).strip() for line in lines])[0].get("time", ""))
    if told is None:
        return finished_at
    text = f"{told[1]}T{told[2]}Z"
    began, ended = moment(text), moment(finished_at)
    is_close = began is not None and ended is not None and 0 <= (ended - began).total_seconds() <= LAUNCHER_SECONDS
    return text if is_close else finished_at


def is_consequence(line: str) -> bool:
    """Whether the line tells of a peer that is gone, so that its rank is a victim and not the culprit."""
    return _ELSEWHERE.search(line) is not None


def is_later(ended_at: str, victim: str, seconds: float) -> bool:
    """Whether a program ended so long after that of the victim that it cannot be the reason."""
    began, ended = moment(victim), moment(ended_at)
    return began is not None and ended is not None and (ended - began).total_seconds() > seconds


def _uncaught(lines: Sequence[str]) -> str:
    """The exception of the last traceback, if no more follows than a program writes while it ends; else empty.

    The node reads standard output and standard error side by side, so that lines of one get behind later ones of the
    other. Python writes what it holds of its output after the traceback, libraries then warn of what was not closed,
    and messages have further lines that say what to try next.
    """
    own = [_RANK.sub("", line) for line in lines]
    begin = next((n for n in range(len(own) - 1, -1, -1) if own[n].rstrip() == _TRACEBACK), None)
    if begin is None:
        return ""
    end = next((n for n in range(begin + 1, len(own)) if not own[n].startswith(" ")), len(own))
    follows = sum(len(line) + 1 for line in own[end + 1 :])
    line = plain(own[end]).strip() if end < len(own) and follows <= _BUFFER else ""
    return line if _EXCEPTION.fullmatch(line) else ""


def _summary(lines: Sequence[str]) -> tuple[dict[str, str], list[str], int]:
    """The fields of torchrun's summary, the lines of its traceback, and where it begins; no fields without one."""
    begin = next((n for n in range(len(lines) - 1, -1, -1) if _SUMMARY.search(lines[n])), None)
    fields: dict[str, str] = {}
    trace: list[str] = []
    for line in lines[begin + 1 :] if begin is not None else ():
        if found := _FIELD.match(_PREFIX.sub("", line)):
            fields.setdefault(found[1], found[2].strip())
        elif "traceback" in fields:
            trace.append(line)
    return fields, trace, begin or 0


def _of_torchrun(lines: Sequence[str]) -> str:
    """What torchrun's summary says of the process that failed first; empty without a summary.

    torchrun itself ends with exit code 1, whatever its processes did.
    """
    fields, trace, begin = _summary(lines)
    rank, code = fields.get("rank", "").partition(" ")[0], fields.get("exitcode", "").partition(" ")[0]
    if not rank or not code:
        return ""
    which = f"torchrun: rank {rank}, exit code {code}"
    if signal := _SIGNAL.search(fields.get("traceback", "")):
        return f"{which}, signal {signal[1]} ({signal[2]})"
    if code.startswith("-"):
        return f"{which}, signal {code[1:]}"
    own = trace[-1] if fields.get("traceback") == _TRACEBACK and trace else _of_worker(lines[:begin], rank)
    return f"{own} ({which})" if own else which


def _of_worker(lines: Sequence[str], rank: str) -> str:
    """The last line that the process of that rank has written before torchrun saw its end."""
    # The last one: torchrun may have started its processes again before.
    seen = next((n for n in range(len(lines) - 1, -1, -1) if _AGENT_SAW.search(lines[n])), None)
    before = lines[:seen] if seen is not None else _before_agent(lines)
    own = [line for line in before if not _AGENT.search(line)]
    of_rank = [line for line in own if line.startswith(f"[rank{rank}]:")]
    return _PREFIX.sub("", (of_rank or own or [""])[-1])


def _before_agent(lines: Sequence[str]) -> Sequence[str]:
    """The lines before a traceback of torchrun, which ends the log."""
    last = next((n for n in range(len(lines) - 1, -1, -1) if lines[n] == _TRACEBACK), None)
    if last is None or not any(_AGENT.search(line) or "torchrun" in line for line in lines[last + 1 : last + 3]):
        return lines
    return lines[:last]
