# SPDX-License-Identifier: Apache-2.0
"""A kind in two versions: boats have a length with a unit in `v1`, and meters in `v2`, which is what is stored."""

import re
from pathlib import Path

from api.sea import v1, v2

from trainwright.controller.runtime import AdmissionRequest, App, Context, ErrorCause, generation_changed

METERS = {"m": 1.0, "ft": 0.3048}
LONGEST = 400.0

app = App("boats", crds=Path(__file__).parent / "crds")


@app.converts(v1.Boat, v2.Boat)
def to_meters(boat: v1.Boat) -> v2.Boat:
    """`30 ft` is 9.144 meters."""
    text = boat.spec.length if boat.spec else None
    found = re.fullmatch(r"([\d.]+) (m|ft)", text or "")
    if text is not None and found is None:
        raise ValueError(f"spec.length is {text!r}: write a number and m or ft, such as 30 ft")
    meters = round(float(found[1]) * METERS[found[2]], 4) if found else None
    return v2.Boat(metadata=boat.metadata, spec=v2.BoatSpec(meters=meters))


@app.converts(v2.Boat, v1.Boat)
def to_length(boat: v2.Boat) -> v1.Boat:
    """9.144 meters are `9.144 m`."""
    meters = boat.spec.meters if boat.spec else None
    length = f"{meters:g} m" if meters is not None else None
    return v1.Boat(metadata=boat.metadata, spec=v1.BoatSpec(length=length))


@app.defaults(v2.Boat)
def one_sailor_for_ten_meters(boat: v2.Boat, request: AdmissionRequest[v2.Boat]) -> None:
    """A boat that does not say how many sailors it needs gets one, and one more for each ten meters.

    Not one of `v1`, which has no field for them: what this adds is lost on the way back to that version.
    """
    if request.operation == "CREATE" and boat.spec is not None and boat.spec.meters is not None:
        boat.spec.crew = boat.spec.crew if boat.spec.crew not in (None, 1) else 1 + int(boat.spec.meters // 10)


@app.validates(v2.Boat)
def is_a_boat(boat: v2.Boat, request: AdmissionRequest[v2.Boat]) -> list[ErrorCause]:
    """No boat is longer than 400 meters."""
    meters = (boat.spec.meters if boat.spec else None) or 0.0
    if meters <= LONGEST:
        return []
    return [ErrorCause("FieldValueInvalid", "spec.meters", f"{meters:g} is longer than any boat: at most {LONGEST:g}")]


@app.reconciles(v2.Boat, status=True, when=[generation_changed])
async def boats(boat: v2.Boat, ctx: Context) -> None:
    """All sailors come aboard."""
    await ctx.status(aboard=boat.spec.crew if boat.spec else 0)


if __name__ == "__main__":
    app.main()
