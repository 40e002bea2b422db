# SPDX-License-Identifier: Apache-2.0
"""A database in a server outside of the cluster, for each object: made, watched, and dropped before the object goes."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from trainwright.controller.runtime import App, Context, Resource, Terminal

DATABASE = Resource(group="data.example.com", version="v1", kind="Database", plural="databases", namespaced=True)
LOOK_SECONDS = 60.0

app = App("databases", crds=Path(__file__).parent / "crds")


def file_of(database: dict[str, Any]) -> Path:
    """The server of this example is a folder of SQLite files."""
    metadata = database["metadata"]
    return Path(os.environ["DATABASES"], f"{metadata['namespace']}-{metadata['name']}.sqlite")


@app.reconciles(DATABASE, status=True, events=True)
async def databases(database: dict[str, Any], ctx: Context) -> None:
    """Make the database, and say how many tables it has; look again every minute, since nothing tells of them."""
    if not (owner := database.get("spec", {}).get("owner")):
        raise Terminal("spec.owner is not set: write whose database it is")
    file = file_of(database)
    is_new = not file.exists()
    with closing(sqlite3.connect(file)) as connection:
        tables = connection.execute("select count(*) from sqlite_master where type = 'table'").fetchone()[0]
    if is_new:
        ctx.event("Created", f"The database of {owner} is there.")
    await ctx.status({"state": "Ready", "tables": tables})
    ctx.requeue_after(LOOK_SECONDS)


@app.finalizes(DATABASE, "data.example.com/database")
async def drop(database: dict[str, Any], ctx: Context) -> None:
    """Drop it; it may be gone already."""
    file_of(database).unlink(missing_ok=True)


if __name__ == "__main__":
    app.main()
