# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, and which pod has which.

A pod gets whole devices, named by uuid in CUDA_VISIBLE_DEVICES. Two pods never share one: NCCL refuses a device that
two ranks use. Neither do two clusters of a user: a device that one of them has given to a pod is locked.
"""

import logging
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from trainwright.api.objects import Document, uid_of
from trainwright.api.quantity import Quantity
from trainwright.controller.local.node.document.pods import containers_of, is_sidecar
from trainwright.controller.local.node.locks import MachineLocks
from trainwright.controller.local.node.plan.plan import CreateError

log = logging.getLogger(__name__)

RESOURCE = "nvidia.com/gpu"
VARIABLE = "CUDA_VISIBLE_DEVICES"
PROC = Path("/proc/driver/nvidia/gpus")
SMI_SECONDS = 20.0
"""nvidia-smi loads the driver, which takes its time."""

_UUID = re.compile(r"^GPU UUID:\s*(GPU-\S+)\s*$", re.MULTILINE)


def discover(proc: Path = PROC, smi: str = "nvidia-smi") -> tuple[str, ...]:
    """The uuids of the GPUs, from the driver's files, else from nvidia-smi. Blocks. Empty: there are none."""
    if proc.is_dir():
        found = [match[1] for path in sorted(proc.glob("*/information")) if (match := _UUID.search(path.read_text()))]
        if found:
            return tuple(found)
    try:
        listed = subprocess.run(
            [smi, "--query-gpu=uuid", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=SMI_SECONDS,
            check=True,
        )
    except FileNotFoundError:
        return ()
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the GPUs of this machine are not known: %s", error)
        return ()
    return tuple(line.strip() for line in listed.stdout.splitlines() if line.strip().startswith("GPU-"))


class Gpus:
    """The devices and their pods."""

    def __init__(self, devices: Sequence[str] = (), *, share: bool = False, locks: MachineLocks | None = None) -> None:
        """`share`: leave all devices visible to everybody, and assign none."""
        self._free = list(devices)
        self._share = share
        self._locks = locks or MachineLocks()
        self._held: dict[str, tuple[str, ...]] = {}
        self.count = len(devices)

    def variables(self, pod: Document, container: Document) -> dict[str, str]:
        """The variables of a container; the devices of a pod are assigned at the first call and kept for its life.

        Raises CreateError if too few are free.
        """
        if not self.count or self._share:
            return {}
        before, count = _offset(pod, container), gpus_of(container)
        # Also for none: a pod that asks for no GPU sees none, as in a cluster.
        return {VARIABLE: ",".join(self._assigned(pod)[before : before + count])}

    def devices_of(self, pod: Document, container: Document) -> tuple[str, ...]:
        """The devices that a container has, as far as they have been assigned."""
        before, count = _offset(pod, container), gpus_of(container)
        return self._held.get(uid_of(pod), ())[before : before + count]

    def release(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        given_back = self._held.pop(uid, ())
        self._free += given_back
        for device in given_back:
            self._locks.give_back(device)

    def close(self) -> None:
        """Give all devices back, at the end of the node."""
        self._locks.close()

    def _assigned(self, pod: Document) -> tuple[str, ...]:
        uid, wanted = uid_of(pod), _needed(pod)
        if uid not in self._held:
            self._held[uid] = self._taken(wanted)
        return self._held[uid]

    def _taken(self, wanted: int) -> tuple[str, ...]:
        """So many devices that neither this cluster nor another one has given away. Raises CreateError."""
        taken: list[str] = []
        for device in self._free:
            if len(taken) == wanted:
                break
            if self._locks.take(device):
                taken.append(device)
        if len(taken) < wanted:
            for device in taken:
                self._locks.give_back(device)
            elsewhere = len(self._free) - len(taken)
            more = f"; {elsewhere} more are in use by other clusters" if elsewhere else ""
            raise CreateError(f"the pod needs {wanted} GPUs, {len(taken)} of {self.count} are free{more}")
        self._free = [device for device in self._free if device not in taken]
        return tuple(taken)


def gpus_of(container: Document) -> int:
    """The number of GPUs that a container asks for."""
    amount = ((container.get("resources") or {}).get("limits") or {}).get(RESOURCE)
    return 0 if amount is None else Quantity.parse(amount).rounded_up()


def _lasting(pod: Document) -> list[Document]:
    """The containers that run at the same time."""
    init, main = containers_of(pod)
    return [*(one for one in init if is_sidecar(one)), *main]


def _needed(pod: Document) -> int:
    """Devices for all that runs at once. Init containers use them before."""
    return max([sum(gpus_of(one) for one in _lasting(pod)), *(gpus_of(one) for one in containers_of(pod).init)])


def _offset(pod: Document, container: Document) -> int:
    """Where the devices of a container begin among those of its pod."""
    offset = 0
    for one in _lasting(pod):
        if one["name"] == container["name"]:
            return offset
        offset += gpus_of(one)
    return 0
