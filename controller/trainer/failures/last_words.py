# SPDX-License-Identifier: Apache-2.0
"""What the end of a log says of a failure: the one line to quote, and whether it tells of a failure elsewhere.

Logs are foreign text. What a kubelet answers in place of a log is no log, and launchers write more after the program
has ended than the program itself: torchrun ends with a traceback of its own and a summary between rulers, mpirun with a
paragraph. They know more than the exit code of their container, which is theirs: which process ended, and how.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainwright.api.messages import plain, shortened
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
    r"|(?:got|received) signal:? (?:15|sigterm)|unhealthy tasks|another task died|preempted by"
    r"|gloo/transport/.*(?:timed out|timeout)|connectfullmesh failed|failed to recv, got 0 bytes|distnetworkerror",
    re.IGNORECASE,
)
"""Words of a rank that failed since another one did, which it waited for or spoke to."""
_SUMMARY = re.compile(r"Root Cause \(first observed failure\):")
_FIELD = re.compile(r"(time|rank|exitcode|traceback)\s*:\s(.*)")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
LAUNCHER_SECONDS = 600.0
"""torchrun ends up to that long after its process: it waits for the other nodes first, for 300 s at most."""
_FAILURES = "Failures:"
_SIGNAL = re.compile(r"Signal (\d+) \((\w+)\)")
_AGENT = re.compile(r"torch[./]distributed[./](?:elastic|run|launcher)|torchelastic|Sending process \d+ closing signal")
"""Lines of torchrun itself."""
_CLOSES = re.compile(r"Sending process \d+ closing signal")
"""What it does to the other processes of the node."""
_AGENT_SAW = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")
_LAUNCHED = re.compile(r"\b(?:torchrun|mpirun|accelerate): .*\bexit code -?\d+")
"""What is said here of a process below a launcher."""
_MPI = (
    re.compile(r"noticed that process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<signal>\d+)"),
    re.compile(r"first process to do so was:\s+Process name: \[.*?,(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)"),
    re.compile(r"RANK (?P<rank>\d+) PID \d+ RUNNING AT \S+[\s=]+KILLED BY SIGNAL: (?P<signal>\d+)"),
    re.compile(r"RANK (?P<rank>\d+) PID \d+ RUNNING AT \S+[\s=]+EXIT (?:CODE|STATUS): (?P<code>\d+)"),
)
"""What mpirun of Open MPI and of Intel MPI says of the process that failed first."""
_ACCELERATE = re.compile(
    r"CalledProcessError: Command .* (?:returned non-zero exit status (?P<code>\d+)"
    r"|died with <Signals\.\w+: (?P<signal>\d+)>)"
)
"""The last line of `accelerate launch` with one process; with several it is torchrun."""
_LAST_LINES = 40
"""Among which mpirun's words are."""
_TRACEBACK = "Traceback (most recent call last):"
_PREFIX = re.compile(r"^\[(?:rank|default)\d+\]:\s*")
RANK_PREFIX = re.compile(r"^\[(?:rank|default)\d+\]: ?")
"""The same without the indentation that follows."""
_EXCEPTION = re.compile(r"(?:\w+\.)*[A-Z_]\w*(?::(?: .*)?)?")
"""The line below the frames of a traceback of Python."""
_RAISED = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:: .*|:?)$")
"""The same where indentation is gone, among the frames."""
_SIGTERM = 15
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
    told = _told(own)
    if summed_up := _of_torchrun(told) or _of_mpirun(told) or _of_accelerate(own, told):
        return summed_up
    uncaught = _uncaught(own) if exit_code == _EXCEPTION_CODE else ""
    return uncaught or (told[-1] if told else "")


def _told(lines: Sequence[str]) -> list[str]:
    return [line for raw in lines if (line := plain(raw).strip(" \t\n\ufffd")) if not _RULER.fullmatch(line)]


def is_victim(lines: Sequence[str], exit_code: int | None, *, stopped: bool) -> bool:
    """Whether a container failed since another one did, or since it was `stopped`.

    A launcher may be stopped while it waits for the others after the end of its process. An exception that nobody
    caught is no answer to a signal, either.
    """
    line = telling_line(lines, exit_code)
    if is_consequence(line):
        return True
    raised = exit_code == _EXCEPTION_CODE and _uncaught(without_answers(lines))
    return stopped and not is_launched(line) and not raised


def ended_below(lines: Sequence[str]) -> str:
    """What torchrun, which runs on, has said of a process of its that ended; empty: nothing, or more came after it.

    It waits for the other nodes then, for 300 s at most, and they may wait for that process.
    """
    told = _told(without_answers(lines))
    saw = next((n for n in range(len(told) - 1, -1, -1) if _AGENT_SAW.search(told[n])), None)
    is_last = saw is not None and all(_AGENT.search(line) for line in told[saw:])
    return _of_torchrun(told) if is_last else ""


def is_launched(line: str) -> bool:
    """Whether the line tells of a process below a launcher, so that the number of its pod is that of a node."""
    return _LAUNCHED.search(line) is not None


def program_ended(lines: Sequence[str], finished_at: str) -> str:
    """When the program ended that a container has started: torchrun's summary tells, else the container's own end.

    The summary has the local time of its container. One that does not fit to the end of the container is no UTC.
    """
    told = _MOMENT.match(_first_process(_told(lines))[0].time)
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
    own = [RANK_PREFIX.sub("", line) for line in lines]
    begin = next((n for n in range(len(own) - 1, -1, -1) if own[n].rstrip() == _TRACEBACK), None)
    if begin is None:
        return ""
    end = next((n for n in range(begin + 1, len(own)) if not own[n].startswith(" ")), len(own))
    follows = sum(len(line) + 1 for line in own[end + 1 :])
    line = plain(own[end]).strip() if end < len(own) and follows <= _BUFFER else ""
    return line if _EXCEPTION.fullmatch(line) else ""


@dataclass(frozen=True, slots=True)
class _Process:
    """A process in torchrun's summary; without a summary, or a rank in it, all is empty."""

    rank: str = ""
    code: str = ""
    time: str = ""
    is_one_of_many: bool = False
    """Whether its node has other processes, by its number there."""
    trace: tuple[str, ...] = ()
    """What the summary has of its traceback, or of the signal that ended it."""

    @property
    def exception(self) -> str:
        return self.trace[-1] if self.trace[:1] == (_TRACEBACK,) else ""

    def told(self, number: str = "") -> str:
        signal = _SIGNAL.search(self.trace[0]) if self.trace else None
        return f"torchrun: {number or f'rank {self.rank}'}, {_ended(self.code, signal[2] if signal else '')}"


def _ended(code: str, name: str = "") -> str:
    if not code.startswith("-"):
        return f"exit code {code}"
    return f"exit code {code}, signal {code[1:]}{f' ({name})' if name else ''}"


def _summary(lines: Sequence[str]) -> tuple[list[_Process], int]:
    """The processes of torchrun's summary, the one first that it calls the root cause, and where that begins."""
    root = next((n for n in range(len(lines) - 1, -1, -1) if _SUMMARY.search(lines[n])), None)
    if root is None:
        return [], 0
    begin = next((n for n in range(root - 1, -1, -1) if lines[n].endswith(_FAILURES)), root)
    found: list[_Process] = []
    for part in (lines[root + 1 :], lines[begin + 1 : root]):
        fields: dict[str, str] = {}
        trace: list[str] = []
        for line in (*part, "time : "):
            field = _FIELD.match(_PREFIX.sub("", line))
            if field is None:
                trace += [line] if "traceback" in fields else []
                continue
            if field[1] in fields or (field[1] == "time" and fields):
                found.append(_process(fields, trace))
                fields, trace = {}, []
            fields[field[1]] = field[2].strip()
    return [one for one in found if one.rank and one.code], begin


def _process(fields: dict[str, str], trace: Sequence[str]) -> _Process:
    rank, code = (fields.get(name, "").partition(" ")[0] for name in ("rank", "exitcode"))
    own = [line for line in trace if not re.fullmatch(r"\[\d+\]:", line)]
    is_one_of_many = re.search(r"local_rank: [1-9]", fields.get("rank", "")) is not None
    return _Process(rank, code, fields.get("time", ""), is_one_of_many, (fields.get("traceback", ""), *own))


def _first_process(lines: Sequence[str]) -> tuple[_Process, str]:
    """The process that failed first by torchrun's summary, and what is told of it.

    The times of the summary have whole seconds, so that the root cause may be a process which lost the one that failed:
    words of a lost peer go last, and what torchrun itself has stopped.
    """
    found, begin = _summary(lines)
    if not found:
        return _Process(), ""
    is_shared = found[1:] or found[0].is_one_of_many or any(_CLOSES.search(line) for line in lines[:begin])
    said = _exceptions_of_workers(lines[:begin]) if is_shared else []
    first = [one for one in said if not is_consequence(one)]
    unnamed = [one for one in found if one.code == str(_EXCEPTION_CODE) and not one.exception]

    def words(one: _Process) -> str:
        if one.exception or one.code.startswith("-"):
            return one.exception
        if not said:
            return _of_worker(lines[:begin], one.rank)
        own = _exceptions_of_workers(lines[:begin], one.rank)
        # Lines that do not name their rank are of one of the processes that an exception ended.
        return (own or (first or said if one in unnamed else []) or [""])[-1]

    def is_late(one: _Process) -> bool:
        return one.code == f"-{_SIGTERM}" or is_consequence(words(one))

    chosen = min(found, key=is_late)  # the first one among equals
    own = words(chosen)
    is_one_of = chosen in unnamed and unnamed[1:] and own in first and not _is_of_rank(lines[:begin], chosen.rank)
    told = chosen.told(f"one of ranks {', '.join(sorted(one.rank for one in unnamed))}" if is_one_of else "")
    return chosen, f"{own} ({told})" if own else told


def _exceptions_of_workers(lines: Sequence[str], rank: str = "") -> list[str]:
    """The lines that end a traceback of Python, without those of torchrun; `rank`: those that name it alone."""
    own = [line for line in _before_agent(lines) if not _AGENT.search(line)]
    own = [line for line in own if line.startswith(f"[rank{rank}]:")] if rank else own
    told = [_PREFIX.sub("", line) for line in own]
    begins = [n for n, line in enumerate(told) if line == _TRACEBACK]
    ends = (told[begin + 1 : end] for begin, end in zip(begins, [*begins[1:], len(told)], strict=False))
    return [line for part in ends if (line := next(filter(_RAISED.match, part), ""))]


def _is_of_rank(lines: Sequence[str], rank: str) -> bool:
    return any(line.startswith(f"[rank{rank}]:") for line in lines)


def _of_torchrun(lines: Sequence[str]) -> str:
    """What torchrun says of the process that failed first; empty where it says nothing.

    torchrun itself ends with exit code 1, whatever its processes did.
    """
    if told := _first_process(lines)[1]:
        return told
    # One that is stopped while it waits for the other nodes has no summary.
    saw = next((found for line in reversed(lines) if (found := _AGENT_SAW.search(line))), None)
    if saw is None or saw[1] == f"-{_SIGTERM}":
        return ""
    own = "" if saw[1].startswith("-") else _of_worker(lines, "")
    told = f"torchrun: local rank {saw[2]}, {_ended(saw[1])}"
    return f"{own} ({told})" if own else told


def _of_mpirun(lines: Sequence[str]) -> str:
    """What mpirun says of the process that failed first."""
    text = " ".join(lines[-_LAST_LINES:])
    found = next((found for one in _MPI if (found := one.search(text))), None)
    if found is None:
        return ""
    said = found.groupdict()
    code = f"-{said['signal']}" if said.get("signal") else said["code"]
    raised = [one for one in _exceptions_of_workers(lines) if not is_consequence(one)]
    told = f"mpirun: rank {said['rank']}, {_ended(code)}"
    return f"{raised[-1]} ({told})" if raised and code == str(_EXCEPTION_CODE) else told


def _of_accelerate(lines: Sequence[str], told: Sequence[str]) -> str:
    """What `accelerate launch` says of its process."""
    found = _ACCELERATE.search(told[-1]) if told else None
    if found is None:
        return ""
    begin = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].rstrip() == _TRACEBACK), 0)
    own = _uncaught(lines[:begin])
    ended = f"accelerate: {_ended(found['code'] or '-' + found['signal'])}"
    return f"{own} ({ended})" if own else ended


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
    if last is None or not any(_AGENT.search(line) or "torchrun" in line for line in lines[last + 1 : last + 4]):
        return lines
    return lines[:last]


_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)$')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|<frozen ")
_WAITS = re.compile(
    r"torch/distributed/|mpi4py|horovod|/xgboost/collective|multihost_utils"
    r"|\b(?:all_?reduce|all_?gather\w*|reduce_?scatter\w*|broadcast\w*|barrier|monitored_barrier)$",
    re.IGNORECASE,
)
"""Files and functions of what a rank does together with the others."""
_MAIN = "<module>"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Place:
    frame: str
    """The innermost line of the user's own files."""
    waits: bool
    """Whether it calls what all ranks do together."""


def whereabouts(logs: Mapping[str, str]) -> str:
    """Which rank is not where the others are, and at which line of the user's file; empty: the logs do not tell.

    `logs` are the ends of logs by rank, as people call it. The writer of progress lets `faulthandler` print there where
    each thread stands. Most ranks of a training that hangs wait for the one that is elsewhere.
    """
    places = [(rank, place) for rank, log in logs.items() for place in _places(log.split("\n"))]
    if not places:
        return ""
    counts = Counter(place.frame for _, place in places)
    (usual, number), *others = counts.most_common()
    if not others:
        return f"{_listed(dict.fromkeys(rank for rank, _ in places))} stood at {usual}"
    away = [one for one in places if not one[1].waits]
    if not away or len(away) == len(places):
        away = [one for one in places if one[1].frame != usual] if number * 2 > len(places) else []
    if not away:
        return ", ".join(f"{rank} stood at {place.frame}" for rank, place in places[:_NAMED])
    staying = next(place.frame for _, place in places if place not in [one for _, one in away])
    rank, place = away[0]
    more = f", like {len(away) - 1} more" if away[1:] else ""
    return f"{rank} was elsewhere{more}: {place.frame}; the others waited at {staying}"


def _listed(ranks: Mapping[str, None]) -> str:
    names = list(ranks)
    return names[0] if len(names) == 1 else f"all {len(names)} that printed a stack"


def _places(lines: Sequence[str]) -> Iterator[_Place]:
    """Where the main thread of each process stands."""
    for frames in _threads(lines):
        # Other threads do not begin in a module.
        if all(function != _MAIN for _, _, function in frames):
            continue
        own = next((n for n, (file, _, _) in enumerate(frames) if not _LIBRARY.search(file)), 0)
        file, line, function = frames[own]
        waits = any(_WAITS.search(file) or _WAITS.search(function) for file, _, function in frames[: own + 1])
        yield _Place(f'File "{shortened(file, 60)}", line {line}, in {function}', waits)


def _threads(lines: Sequence[str]) -> Iterator[list[tuple[str, str, str]]]:
    """The frames of each thread, the innermost first."""
    frames: list[tuple[str, str, str]] = []
    is_inside = False
    for line in (*(RANK_PREFIX.sub("", one).rstrip() for one in lines), ""):
        frame = _FRAME.match(line) if is_inside else None
        if frame is not None:
            frames.append((frame[1], frame[2], frame[3]))
            continue
        if frames:
            yield frames
        frames, is_inside = [], _THREAD.search(line) is not None
