# SPDX-License-Identifier: Apache-2.0
"""An operator as users of kopf write it: it runs in an environment with kopf and without this project."""

# mypy: ignore-errors
# pyright: reportMissingImports=false
import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.loggers = True


@kopf.on.create("kopf.dev", "v1", "kopfexamples")
def created(spec, patch, **_):
    patch.status["seen"] = spec["duration"]
    return {"message": "hello"}


@kopf.on.create("kopfexamples", backoff=0.2)
def flaky(retry, patch, **_):
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.2)
    patch.status["attempts"] = retry


@kopf.on.field("kopfexamples", field="spec.duration")
def changed(old, new, patch, **_):
    patch.status["change"] = f"{old} to {new}"


@kopf.on.delete("kopfexamples")
def deleted(body, **_):
    kopf.info(body, reason="Deleted", message="by its finalizer")


@kopf.timer("kopfexamples", interval=0.5)
def tick(patch, status, **_):
    patch.status["ticks"] = (status.get("ticks") or 0) + 1


@kopf.daemon("kopfexamples")
async def daemon(stopped, logger, **_):
    logger.info("the daemon runs")
    await stopped.wait()


@kopf.index("configmaps")
def names(name, **_):
    return {"names": name}


@kopf.on.event("configmaps")
def seen(name, names, logger, **_):
    logger.info("config map %s among %d", name, len(names.get("names", [])))
