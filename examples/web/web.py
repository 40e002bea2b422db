# SPDX-License-Identifier: Apache-2.0
"""Ten lines: a ConfigMap with the label `web=yes` becomes a Service in front of the pods of its name."""

from trainwright.api.kubernetes.core.v1 import ConfigMap, Service, ServicePort, ServiceSpec
from trainwright.controller.runtime import App, Context

app = App("web")


@app.reconciles(ConfigMap, labels="web=yes", owns=[Service])
async def web(config: ConfigMap, ctx: Context) -> None:
    """Keep the Service of one ConfigMap."""
    spec = ServiceSpec(selector={"app": config.name}, ports=[ServicePort(port=80)])
    await ctx.apply(Service(metadata=ctx.child(), spec=spec))


if __name__ == "__main__":
    app.main()
