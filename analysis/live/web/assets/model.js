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
  const own = number < 0 ? model.page : model.runs[number];
  if (!own.has(kind)) own.set(kind, new Map());
  const of = own.get(kind);
  if (rest.length === 3) of.set(name, grown(of.get(name), ...rest));
  else if (rest[0] === null) of.delete(name);
  else of.set(name, rest[0]);
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

function partOf(own, kind, name = "") {
  return own.get(kind)?.get(name);
}

function namesOf(own, kind) {
  return [...(own.get(kind)?.keys() || [])];
}
