# SPDX-License-Identifier: Apache-2.0
"""The operator of kopf's tutorial, ported: an EphemeralVolumeClaim becomes a PersistentVolumeClaim of its size.

`others/volumes_kopf.py` is what it was.
"""

from pathlib import Path
from typing import Any

from trainwright.api.kubernetes.core.v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResourceRequirements,
)
from trainwright.api.objects import labels_of
from trainwright.controller.runtime import App, Context, Resource

CLAIM = Resource(
    group="kopf.dev", version="v1", kind="EphemeralVolumeClaim", plural="ephemeralvolumeclaims", namespaced=True
)
app = App("volumes", crds=Path(__file__).parent / "crds")


@app.reconciles(CLAIM, owns=[PersistentVolumeClaim])
async def volume(claim: dict[str, Any], ctx: Context) -> None:
    """Keep the size and the labels of the claim's own claim."""
    spec = PersistentVolumeClaimSpec(
        storage_class_name="standard",
        access_modes=["ReadWriteOnce"],
        resources=VolumeResourceRequirements(requests={"storage": claim["spec"]["size"]}),
    )
    await ctx.apply(PersistentVolumeClaim(metadata=ctx.child(labels=labels_of(claim)), spec=spec))


if __name__ == "__main__":
    app.main()
