// What the page knows of the runs: parts by run, kind and name, changed by the messages of the server.

const model = { page: new Map(), runs: [] };

function forget() {
  model.page.clear();
  model.runs.length = 0;
}

// `[run, kind, name, value]` in its place, or `[run, kind, name, drop, keep, more]` of columns that grow.
function apply(part) {
  const [number, kind, name, ...rest] = part;
  while (number >= model.runs.length) model.runs.push(new Map());
  const parts = number < 0 ? model.page : model.runs[number];
  if (!parts.has(kind)) parts.set(kind, new Map());
  const named = parts.get(kind);
  if (rest.length === 3) named.set(name, grown(named.get(name), ...rest));
  else if (rest[0] === null) named.delete(name);
  else named.set(name, rest[0]);
}

function grown(columns, drop, keep, more) {
  return more.map((column, at) => {
    const kept = columns ? columns[at].subarray(drop, drop + keep) : new Float64Array();
    const all = new Float64Array(kept.length + column.length);
    all.set(kept);
    column.forEach((value, i) => { all[kept.length + i] = value === null ? NaN : value; });
    return all;
  });
}

function partOf(parts, kind, name = "") {
  return parts.get(kind)?.get(name);
}

function namesOf(parts, kind) {
  return [...(parts.get(kind)?.keys() || [])];
}
