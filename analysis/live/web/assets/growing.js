// Curves that grow: one panel a metric for all runs, its plots those of every page; only what has changed is drawn.

const shownPanels = new Map(); // name -> chart

function drawPanels(place, changed) {
  const panels = partOf(model.page, "panels") || [];
  const names = new Set(panels.map((panel) => panel.name));
  for (const [name, chart] of shownPanels) if (!names.has(name)) dropPanel(name, chart);
  panels.forEach((panel, at) => {
    const chart = shownPanels.get(panel.name) || newPanel(panel);
    const figure = chart.canvas.closest("figure");
    if (place.children[at] !== figure) place.insertBefore(figure, place.children[at] || null);
    const before = chart.series.length;
    chart.series = seriesOf(panel, chart);
    chart.panel.marks = marks();
    chart.panel.noisy = panel.noisy;
    chart.means.clear();
    figure.hidden = !chart.series.length;
    if (chart.series.length !== before) chart.legend.replaceWith((chart.legend = legendOf(chart)));
    if (changed === null || panel.series.some((metric) => changed.has(metric.name))) chart.stale = true;
  });
  say(document.getElementById("left-out"), partOf(model.page, "is_cut") ? "More metrics were printed than are drawn here: gputel report draws all of them." : "");
  view.most.clear();
  for (const chart of shownPanels.values()) {
    if (linked(chart)) chart.stale = true;
    if (chart.stale && isNear(chart)) paintChart(chart);
  }
}

// A curve that reaches further makes the plots beside it reach further, too.
function linked(chart) {
  return !chart.reached || chart.reached !== String(firstRange(chart));
}

function paintChart(chart) {
  chart.reached = String(firstRange(chart));
  paintPlot(chart);
}

function newPanel(panel) {
  const figure = element("figure", "curves");
  figure.append(element("h2", "", panel.title), element("div", "plot"));
  build({
    kind: "curves", name: panel.name, title: panel.title, axes: offered,
    y: { name: panel.name, title: "", unit: panel.unit }, noisy: panel.noisy, steady: panel.steady,
    log: false, link: "runs", series: [], marks: [], levels: [],
  }, figure, null);
  const chart = charts[charts.length - 1];
  shownPanels.set(panel.name, chart);
  return chart;
}

function dropPanel(name, chart) {
  dropChart(chart);
  shownPanels.delete(name);
}

// A series a run and metric; a hidden one stays hidden.
function seriesOf(panel, chart) {
  const many = model.runs.length > 1, drawn = [];
  model.runs.forEach((parts, number) => panel.series.forEach((metric, at) => {
    const columns = partOf(parts, "curve", metric.name);
    if (!columns || !columns[0].length) return;
    const run = partOf(parts, "facts")?.name ?? "", key = `${number} ${metric.name}`;
    const [step, least, mean, largest] = columns;
    const wide = mean.some((value, i) => least[i] !== largest[i] && value === value);
    const before = chart.series.find((series) => series.key === key) || { hidden: !wanted(run), leftOut: !wanted(run) };
    drawn.push(Object.assign(before, {
      key, index: key, run: String(number), name: many ? (at || panel.series.length > 1 ? `${run} · ${metric.name}` : run) : metric.name,
      tint: many ? number : at, style: metric.style, x: placesOf(parts, step), y: mean, low: wide ? least : undefined, high: wide ? largest : undefined,
    }));
  }));
  return drawn;
}

// What happened at a step, behind the curves; of several runs it would be a fence.
function marks() {
  if (model.runs.length !== 1) return [];
  const events = partOf(model.runs[0], "events") || [];
  return events.filter(([, step]) => step !== null).map(([kind, step, , text]) => ({ kind, color: markColor(kind), text: `${nameOfEvent(kind)}: ${text}`, x: placeOfStep(model.runs[0], step), end: null, run: undefined }));
}

function nameOfEvent(kind) {
  return look.events[kind] || kind.replaceAll("_", " ");
}

function markColor(kind) {
  return kind in look.kinds.light ? kind : ["checkpoint", "eval", "epoch", "over"].includes(kind) ? "" : "fault";
}
