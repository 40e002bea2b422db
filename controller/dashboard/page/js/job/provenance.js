// SPDX-License-Identifier: Apache-2.0
// Which line of a YAML document holds which path, in the form of `SettingView.path`. Pure.

const ENTRY = /^(\s*)((?:- )*)(?:("[^"]*"|'[^']*'|[^\s:][^:]*):(?:\s(.*))?)?(.*)$/;

/** The path of each line, such as `spec.replicatedJobs[node].replicas`; empty for a line that begins no value. */
export function pathsOf(lines) {
  const levels = [];
  const counts = new Map();
  let block = -1;
  return lines.map((line, place) => {
    const indent = line.length - line.trimStart().length;
    if (!line.trim() || (block >= 0 && indent > block)) return "";
    block = -1;
    let [, , dashes, key, value] = line.match(ENTRY);
    let column = indent;
    while (levels.length && levels.at(-1).column > column) levels.pop();
    for (; dashes; dashes = dashes.slice(2)) {
      while (levels.length && (levels.at(-1).column > column || (levels.at(-1).column === column && levels.at(-1).item))) levels.pop();
      const parent = levels.at(-1)?.path ?? "";
      const index = counts.get(`${parent}\n${column}`) ?? 0;
      counts.set(`${parent}\n${column}`, index + 1);
      levels.push({ column, item: true, path: `${parent}[${nameOf(lines, place, column + 2) ?? index}]` });
      column += 2;
    }
    if (key === undefined) return levels.at(-1)?.path ?? "";
    while (levels.length && levels.at(-1).column >= column && !(levels.at(-1).item && levels.at(-1).column < column)) levels.pop();
    const parent = levels.at(-1)?.path ?? "";
    const path = parent ? `${parent}.${unquoted(key)}` : unquoted(key);
    levels.push({ column, item: false, path });
    for (const counted of counts.keys()) if (counted.startsWith(`${path}\n`)) counts.delete(counted);
    if (/^[|>]/.test(value ?? "")) block = column;
    return path;
  });
}

/** The settings by line: those of its path, and at the begin of a list item those of the item. */
export function settingsOf(lines, settings) {
  const byPath = new Map(settings.map((setting) => [setting.path, setting]));
  let item = "";
  return pathsOf(lines).map((path, place) => {
    if (!path) return null;
    const parent = path.replace(/\.[^.[\]]*$/, "");
    const begins = /^\s*- /.test(lines[place]);
    item = begins ? parent : item;
    return byPath.get(path) ?? (begins ? byPath.get(parent) : undefined) ?? null;
  });
}

/** The `name` of the list item that begins at a line, whose keys stand in a column. */
function nameOf(lines, place, column) {
  for (let at = place; at < lines.length; at += 1) {
    const line = at === place ? " ".repeat(column) + lines[at].slice(column) : lines[at];
    const indent = line.length - line.trimStart().length;
    if (at > place && line.trim() && indent < column) return null;
    const found = indent === column && line.slice(column).match(/^name:\s+(.*)$/);
    if (found) return unquoted(found[1]);
  }
  return null;
}

function unquoted(text) {
  return text.replace(/^(["'])(.*)\1$/, "$2");
}
