// The figures behind a plot as tables: of each curve its ends, extremes and mean, and the values side by side.

const MOST_CURVES = 8, MOST_PLACES = 20; // of the table of values

function showFigures(chart) {
  const figure = chart.canvas.closest("figure"), open = figure.querySelector(".behind");
  if (open) return open.remove();
  const place = element("div", "behind");
  place.append(...(chart.panel.kind === "heat" ? [rowTable(chart)] : [curveTable(chart), valueTable(chart)]).filter(Boolean));
  chart.legend.after(place);
}

// Of what is in sight: `{ low, high, mean, first, last, count }`.
function figuresOf(own, first, last) {
  const [low, high] = extent(own, first, last, false);
  let sum = 0, count = 0, begin = NaN, end = NaN;
  for (let i = first; i < last; i++) {
    if (own.y[i] !== own.y[i]) continue;
    if (!count++) begin = own.y[i];
    sum += end = own.y[i];
  }
  return { low, high, mean: sum / count, first: begin, last: end, count };
}

function curveTable(chart) {
  const written = (value) => (Number.isFinite(value) ? exactly(Number(value.toPrecision(7))) : "–");
  const rows = inSight(chart).shown.map(({ own, first, last }) => {
    const { low, high, mean, first: begin, last: end, count } = figuresOf(own, first, last);
    return [own.name, grouped(String(count)), ...[begin, end, low, high, mean].map(written)];
  });
  return plainTable(captionOf(chart, "what is in sight"), ["curve", "points", "first", "last", "lowest", "highest", "mean"], rows);
}

// At evenly spread points of the longest curve.
function valueTable(chart) {
  const { shown } = inSight(chart), axis = chart.axis();
  if (!shown.length || shown.length > MOST_CURVES) return null;
  const longest = shown.reduce((a, b) => (b.last - b.first > a.last - a.first ? b : a)), count = longest.last - longest.first;
  const places = Array.from({ length: Math.min(count, MOST_PLACES) }, (_, i) => longest.x[longest.first + Math.round((i * (count - 1)) / Math.max(Math.min(count, MOST_PLACES) - 1, 1))]);
  const rows = places.map((place) => [axis.unit === "s" ? preciseTime(place) : placeOf(axis.unit === "clock" ? place : Number(place.toPrecision(9)), axis), ...shown.map(({ own, x }) => {
    const at = nearest(x, place), inside = at >= 0 && place >= x[0] && place <= x[x.length - 1];
    return inside && Number.isFinite(own.y[at]) ? exactly(own.y[at]) : "–";
  })]);
  return plainTable(captionOf(chart, `by ${axis.title}`), [axisTitle(axis), ...shown.map(({ own }) => own.name)], rows);
}

function rowTable({ panel, rows, cells, across }) {
  const { low, high } = panel.value, values = (row) => [...cells.subarray(row * across, (row + 1) * across)].filter(Boolean).map((cell) => low + ((cell - 1) / 254) * (high - low));
  const lines = Array.from({ length: Math.min(rows.length - 1, 64) }, (_, row) => {
    const known = values(row), [least, most] = reach(known) || [NaN, NaN], written = (value) => (Number.isFinite(value) ? exactly(Number(value.toPrecision(3))) : "–");
    return [rowName(panel, rows, row), ...[least, most, known.reduce((a, b) => a + b, 0) / known.length].map(written)];
  });
  return plainTable(`${panel.title}: ${axisTitle(panel.value)}`, [axisTitle(panel.y), "lowest", "highest", "mean"], lines);
}

function captionOf({ panel }, what) { return `${panel.title}${panel.y.unit ? ` (${panel.y.unit})` : ""}, ${what}`; }

function plainTable(title, heads, rows) {
  const scroll = element("div", "scroll"), table = element("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  scroll.tabIndex = 0;
  table.append(element("caption", "", title));
  heads.forEach((name, column) => head.append(Object.assign(element("th", column ? "number" : "", name), { scope: "col" })));
  for (const [name, ...cells] of rows) {
    const row = body.insertRow();
    row.append(Object.assign(element("th", "", name), { scope: "row" }), ...cells.map((cell) => element("td", "number", cell)));
  }
  scroll.append(table);
  makeSortable(table);
  return scroll;
}
