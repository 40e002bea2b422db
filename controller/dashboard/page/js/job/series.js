// SPDX-License-Identifier: Apache-2.0
// The reports that the page holds of one job, as columns. Pure.

export class Series {
  /** Whether the job has ended. One rank reports, and its 100 % is not that of a job that runs on. */
  isOver = false;
  /** Times as they were reported, in whole seconds. */
  #told = [];

  constructor() {
    this.clear("");
  }

  clear(uid) {
    this.uid = uid;
    /** Of the last report, as the dashboard counts them. */
    this.number = 0;
    this.#told = [];
    this.times = [];
    this.steps = [];
    /** Values by name, in the order in which they are shown. */
    this.curves = new Map();
    /** Indices of values that were NaN or infinite, by name. */
    this.notFinite = new Map();
    /** The lowest and the highest values by name, which differ where a point stands for several reports. */
    this.lows = new Map();
    this.highs = new Map();
    this.marks = [];
  }

  /** Replace everything. */
  take(points) {
    this.clear(points.uid);
    this.append(points);
  }

  /** Append `Points` of the contract; their indices count from the begin of what is appended. */
  append(points) {
    const before = this.times.length;
    this.number = points.number;
    this.#told.push(...points.times);
    this.times = sideBySide(this.#told);
    this.steps.push(...points.steps);
    const given = [{ name: PROGRESS, values: points.percentages, notFinite: [] }, ...points.curves];
    for (const { name, values, notFinite, lows = [], highs = [] } of given) {
      for (const [held, added] of [[this.curves, values], [this.lows, lows.length ? lows : values], [this.highs, highs.length ? highs : values]]) {
        if (!held.has(name)) held.set(name, new Array(before).fill(null));
        held.get(name).push(...added);
      }
      const odd = this.notFinite.get(name) ?? [];
      odd.push(...notFinite.map((index) => before + index));
      this.notFinite.set(name, odd);
    }
    for (const held of [this.curves, this.lows, this.highs]) {
      for (const values of held.values()) while (values.length < this.times.length) values.push(null);
    }
    this.marks.push(...points.marks.map((mark) => ({ ...mark, index: before + mark.index })));
  }

  get hasSteps() {
    return this.steps.some((step) => step !== null);
  }

  get hasBand() {
    return [...this.curves].some(([name, values]) => values.some((_, index) => this.lows.get(name)[index] !== this.highs.get(name)[index]));
  }

  /** Names and sizes of the curves: the loss and what the training named first, others, progress, what never changes. */
  shown(loss, attempt = null) {
    const parts = this.segments(attempt);
    const isIn = (index) => parts.some(({ from, to }) => index >= from && index < to);
    const names = [...this.curves.keys()].filter((name) => this.curves.get(name).some((value, index) => value !== null && isIn(index)) || this.notFinite.get(name).some(isIn));
    const first = names.find((name) => name !== PROGRESS && !this.#isDull(name));
    const rank = (name) => (name === loss ? 0 : name === first ? 1 : this.#isDull(name) ? 5 : name === PROGRESS ? 4 : name.endsWith("loss") ? 2 : 3);
    const sizes = ["large", "large", "middle", "middle", first ? "small" : "middle", "small"];
    names.sort((a, b) => rank(a) - rank(b));
    return names.map((name) => ({ name, title: titleOf(name), size: sizes[rank(name)] }));
  }

  /** Whether a curve says little: it has one value only, as a learning rate that is never changed. */
  #isDull(name) {
    const known = this.curves.get(name).filter((value) => value !== null);
    return name === "checkpoint_step" || (known.length > 2 && known.every((value) => value === known[0]));
  }

  /**
   * Segments as ranges of indices: a new one begins where the training started or fell back to an earlier step. `begins`:
   * the attempt that begins there; null where it is the one before, as after the restart of a container, or not known.
   * @param wanted of this attempt only; null: all
   */
  segments(wanted = null) {
    const begins = [...new Set([0, ...this.marks.map((mark) => mark.index)])].sort((a, b) => a - b);
    const attempts = new Map(this.marks.map((mark) => [mark.index, mark.attempt]));
    let before = null;
    return begins
      .map((from, place) => ({ from, to: begins[place + 1] ?? this.times.length, attempt: attempts.get(from) ?? null }))
      .filter(({ from, to }) => to > from)
      .map((segment) => {
        const isNew = segment.attempt !== null && segment.attempt !== before;
        before = segment.attempt ?? before;
        return { ...segment, begins: isNew ? segment.attempt : null };
      })
      .filter(({ from }) => wanted === null || this.#attemptAt(from) === wanted);
  }

  /** The attempt of a report: the last one that began and is known, else the first. */
  #attemptAt(index) {
    return this.marks.findLast((mark) => mark.index <= index && mark.attempt !== null)?.attempt ?? 1;
  }

  /**
   * One curve for drawing: x rising, and a column for each segment, since steps begin again with each.
   * @param by `time` or `step`
   * @param attempt only this one; null: all
   */
  drawn(name, by, attempt = null) {
    const told = this.curves.get(name) ?? [];
    const values = name === PROGRESS && !this.isOver ? told.map((value) => (value === null ? null : Math.min(value, ALMOST))) : told;
    const at = by === "step" ? this.steps : this.times;
    const odd = new Set(this.notFinite.get(name));
    const segments = this.segments(attempt);
    const isIn = (index) => attempt === null || segments.some(({ from, to }) => index >= from && index < to);
    const xs = [...new Set(at.filter((x, index) => x !== null && (values[index] !== null || odd.has(index)) && isIn(index)))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, index) => [x, index]));
    const sources = new Array(xs.length).fill(-1);
    const notFinite = [];
    const [low, high] = [this.lows.get(name) ?? values, this.highs.get(name) ?? values];
    const lows = [];
    const highs = [];
    const columns = segments.map(({ from, to }) => {
      const [column, below, above] = [0, 1, 2].map(() => new Array(xs.length).fill(null));
      lows.push(below);
      highs.push(above);
      for (let index = from; index < to; index += 1) {
        if (at[index] === null || !place.has(at[index])) continue;
        const here = place.get(at[index]);
        if (odd.has(index)) notFinite.push(here);
        if (values[index] === null) continue;
        column[here] = values[index];
        below[here] = low[index];
        above[here] = high[index];
        sources[here] = index;
      }
      return column;
    });
    const hasBand = lows.some((column, place) => column.some((value, index) => value !== highs[place][index]));
    return { xs, columns, segments, notFinite, sources, band: hasBand ? { lows, highs } : null };
  }
}

/** Of `Points`, the reports with numbers above the one that is given. */
export function after(points, number) {
  const from = Math.max(0, points.times.length - Math.max(0, points.number - number));
  if (from === 0) return points;
  const moved = (indices) => indices.filter((index) => index >= from).map((index) => index - from);
  return {
    ...points,
    times: points.times.slice(from),
    steps: points.steps.slice(from),
    percentages: points.percentages.slice(from),
    curves: points.curves.map((curve) => ({
      ...curve,
      values: curve.values.slice(from),
      lows: curve.lows.slice(from),
      highs: curve.highs.slice(from),
      notFinite: moved(curve.notFinite),
    })),
    marks: points.marks.filter(({ index }) => index >= from).map((mark) => ({ ...mark, index: mark.index - from })),
  };
}

/** Reports of one second lie side by side and not above each other, so that a short run has all of its points. */
export function sideBySide(times) {
  const made = [...times];
  for (let from = 0, to; from < times.length; from = to) {
    for (to = from + 1; times[to] === times[from]; ) to += 1;
    const room = Math.min(1, (times[to] ?? Infinity) - times[from]);
    for (let index = from; index < to; index += 1) made[index] += (room * (index - from)) / (to - from);
  }
  return made;
}

const ALMOST = 99;

/** The name of the curve of percentages. Metrics have names of one character or more. */
export const PROGRESS = "";

export const titleOf = (name) => (name === PROGRESS ? "Progress (%)" : name);
