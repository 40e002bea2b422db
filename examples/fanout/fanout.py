# SPDX-License-Identifier: Apache-2.0
"""One object becomes many: a ConfigMap with the label `fanout=yes` has as many copies as it says, up to thousands."""

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import labels_of
from trainwright.controller.runtime import App, Context, Event, Terminal

MOST = 10_000

app = App("fanout")


def is_source_or_deleted(event: Event[ConfigMap]) -> bool:
    """What this operator writes itself needs no reconcile; a copy that somebody deletes or edits does."""
    return event.type != "ADDED" or labels_of(event.obj).get("fanout") == "yes"


@app.reconciles(
    ConfigMap, labels="fanout=yes", owns=[ConfigMap], deletes=[ConfigMap], when=[is_source_or_deleted], workers=8
)
async def fanout(source: ConfigMap, ctx: Context) -> None:
    """Apply all copies; nothing is sent for those that are as wanted, and what is too many goes."""
    data = source.data or {}
    if not data.get("copies", "").isdigit() or int(data["copies"]) > MOST:
        raise Terminal(f"data.copies is {data.get('copies')!r}: write a number up to {MOST}")
    text = {"text": data.get("text", "")}
    copies = [ConfigMap(metadata=ctx.child(f"{source.name}-{n}"), data=text) for n in range(int(data["copies"]))]
    await ctx.apply(*copies, prune=[ConfigMap])


if __name__ == "__main__":
    app.main()
