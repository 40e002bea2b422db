# SPDX-License-Identifier: Apache-2.0
"""The termination message of a container: what it left in its file, or the end of its log.

https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from contextlib import suppress
from pathlib import Path

from trainwright.api.objects import Document
from trainwright.controller.local.node.files import read_end
from trainwright.controller.local.node.process.containers import Exit
from trainwright.controller.local.node.streams.logs import last_lines

MESSAGE_BYTES = 4096
LOG_BYTES = 2048
LOG_LINES = 80


def message(container: Document, file: Path, log: Path, *, code: int) -> str:
    """The message of a run that ended with `code`: 4 KiB of the end of its file, or 80 lines or 2 KiB of its log.

    The container may have put anything in the place of the file; what cannot be read says why, as with a kubelet.
    """
    text = ""
    with suppress(FileNotFoundError):
        try:
            # Like a kubelet: what a container appends counts, however much it wrote before.
            text = read_end(file, MESSAGE_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            raise
        except OSError as error:
            return f"Error on reading termination log {file}: {error.strerror or error}"
    if not text and code != 0 and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        text = last_lines(log, LOG_LINES, LOG_BYTES).decode("utf-8", "replace")
    return text


def of_kernel(exited: Exit) -> str:
    """What the kernel says of a process that was killed; empty if it says nothing."""
    if exited.out_of_memory:
        return "the kernel killed it for lack of memory"
    if exited.killed_nearby > 0:
        number = f"{exited.killed_nearby} process{'es' if exited.killed_nearby > 1 else ''}"
        return f"the kernel killed {number} of this cluster for lack of memory meanwhile, and does not say which"
    return ""
