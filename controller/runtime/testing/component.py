# SPDX-License-Identifier: Apache-2.0
"""The running programs of a test control plane: start under a guard, wait, stop, and explain failures."""

import http
import http.client
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from trainwright.controller.runtime.testing.ports import is_free
from trainwright.controller.runtime.testing.tools import ControlPlaneError, PortTakenError

_GUARD = Path(__file__).with_name("guard.py")
_LOG_LINES = 15
_PORT_TAKEN = "address already in use"
_POLL_SECONDS = 0.05
_TERMINATE_SECONDS = 10.0
_READY_SECONDS = 60.0


def start_guarded(
    command: Sequence[str],
    *,
    output: int | IO[bytes],
    errors: int | IO[bytes],
    remove: Path | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    held: Sequence[int] = (),
) -> "tuple[subprocess.Popen[bytes], int]":
    """Start a program under a guard. Returns the process of the guard, and the lifeline to close after its end.

    `output` and `errors` are as `subprocess.Popen` takes them; `folder` is where the program works. `remove` is a
    folder to delete if this process dies before the program has ended; `held` are file descriptors that the guard keeps
    open, and the program does not, such as that of a lock.
    """
    lifeline, ours = os.pipe()
    guarded = [sys.executable, "-I", "-S", str(_GUARD), str(lifeline), str(remove or ""), *command]
    try:
        process = subprocess.Popen(
            guarded,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=environment,
            pass_fds=(lifeline, *held),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(lifeline)
    return process, ours


class ControlPlaneComponent:
    """A running program that must not outlive this process (see `guard.py`)."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, remove: Path | None = None, ports: Sequence[int] = ()
    ) -> None:
        """Start the program; its output is appended to `log`, and it listens on loopback `ports`.

        `remove`: folder to delete if this process dies before it stops the component.
        """
        self.name = name
        self.command = tuple(command)
        self.ports = tuple(ports)
        self.log = log
        with log.open("ab") as output:
            # The log is appended to; only the lines after this position belong to this start.
            self._log_start = output.tell()
            self._process, self._lifeline = start_guarded(command, output=output, errors=output, remove=remove)

    @property
    def pid(self) -> int:
        """Process id of the guard; the program is its only child."""
        return self._process.pid

    @property
    def program_pid(self) -> int:
        """Process id of the program itself, for measurements (Linux only, else OSError)."""
        while self.running:
            # The guard needs a moment to start the program.
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            if children:
                return int(children[0])
            time.sleep(_POLL_SECONDS)
        raise ControlPlaneError(self._explain("has ended"))

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait_until(
        self, ready: Callable[[], bool], *, seconds: float, before: "Sequence[ControlPlaneComponent]" = ()
    ) -> None:
        """Poll `ready` until it is true. Programs that were started `before` it must keep running: it may need them.

        Raises ControlPlaneError with the last log lines: the time ran out, or a program ended. It names the first one
        in the order of the start, because its end may have ended the others.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            must_all_run((*before, self))
            if time.monotonic() > deadline:
                raise ControlPlaneError(self._explain(f"was not ready after {seconds:.0f} s"))
            time.sleep(_POLL_SECONDS)

    def must_run(self) -> None:
        """Raise ControlPlaneError with its last log lines if it ended; PortTakenError if another has its port."""
        if self.running:
            return
        ended = f"ended with code {self._process.returncode} while starting"
        # Check both: JobSet's manager may end before it logs the reason, and the port may be free again.
        if any(_PORT_TAKEN in line for line in self._log_lines()) or not all(is_free(port) for port in self.ports):
            raise PortTakenError(self.name, self._explain(f"{ended} (another program listens on its port)"))
        raise ControlPlaneError(self._explain(ended))

    def kill(self) -> None:
        """Crash the program with SIGKILL and wait for its end."""
        if self.running:
            self._process.send_signal(signal.SIGUSR1)
        self._process.wait()
        self._close_lifeline()

    def stop(self) -> None:
        """SIGTERM, then after ten seconds SIGKILL; returns when the program has ended. Can be called again."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_lifeline()

    def _close_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def last_log_lines(self) -> list[str]:
        """The last lines that the program has logged since this start."""
        return self._log_lines()[-_LOG_LINES:]

    def _log_lines(self) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()

    def _explain(self, what: str) -> str:
        lines = [f"{self.name} {what}; the last lines of its log {self.log} are"]
        return "\n".join([*lines, *(f"  {line[:500]}" for line in self.last_log_lines())])


def must_all_run(components: Sequence[ControlPlaneComponent]) -> None:
    """Check that all programs run. Raises as `must_run`, for the first one in the order of the start that has ended."""
    if all(component.running for component in components):
        return
    # Check again from the start: an earlier one may have ended since it was checked.
    for component in components:
        component.must_run()


class Components:
    """The programs of one folder, in the order of their start.

    Methods raise ControlPlaneError for a name that is taken or unknown, and if a program ends or is not ready in time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, tuple[ControlPlaneComponent, Callable[[], bool]]] = {}

    @property
    def by_name(self) -> Mapping[str, ControlPlaneComponent]:
        return {name: component for name, (component, _) in self._running.items()}

    def launch(
        self, name: str, command: Sequence[str], ready: Callable[[], bool], *, ports: Sequence[int] = ()
    ) -> None:
        """Start a program without waiting; `ready` returns whether it serves."""
        if name in self._running:
            raise ControlPlaneError(f"a program named {name} is already running: stop it first, or choose another name")
        component = ControlPlaneComponent(
            name, command, log=self._folder / f"{name}.log", remove=self._folder, ports=ports
        )
        self._running[name] = (component, ready)

    def wait(self, *names: str) -> None:
        """Wait until the named programs are ready; without names: all."""
        waited_for = [self._find(name) for name in names or tuple(self._running)]
        components = [component for component, _ in waited_for]
        for number, (component, ready) in enumerate(waited_for):
            # Programs after it end if it does. They are checked once it is ready.
            component.wait_until(ready, seconds=_READY_SECONDS, before=components[:number])
        # A program that lost its port to another one may look ready, because the other one answers.
        must_all_run(components)

    def restart(self, name: str, *, kill: bool) -> None:
        """Stop or crash one program and start it again with the same command; returns when it is ready."""
        component, ready = self._find(name)
        self.stop_one(name, kill=kill)
        self.launch(name, component.command, ready, ports=component.ports)
        self.wait(name)

    def stop_one(self, name: str, *, kill: bool) -> None:
        component, _ = self._find(name)
        del self._running[name]
        if kill:
            component.kill()
        else:
            component.stop()

    def _find(self, name: str) -> tuple[ControlPlaneComponent, Callable[[], bool]]:
        if name not in self._running:
            raise ControlPlaneError(
                f"there is no program named {name}; running are {', '.join(self._running) or 'none'}"
            )
        return self._running[name]

    def stop(self) -> None:
        """Stop every program, the last started one first. Can be called again."""
        while self._running:
            _, (component, _) = self._running.popitem()
            component.stop()


def has_condition(document: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition of the object is True."""
    conditions = document.get("status", {}).get("conditions") or []
    return any((condition["type"], condition["status"]) == (kind, "True") for condition in conditions)


def answers(url: str, *, authority: bytes | None = None, token: str | None = None) -> bool:
    """Whether a GET succeeds; over HTTPS only with a certificate of the authority."""
    # Proxies of the environment do not apply to the loopback.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if authority is not None:
        context = ssl.create_default_context(cadata=authority.decode())
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=2) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False
