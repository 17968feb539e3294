// Any metric against any other: a plot more, at the top of the page, whose points are those of one plot; where each of
// them lies, the plot of the other metric says.

let against = null; // { chart, y, x }

function againstChip() {
  return pressable("y against x", () => {
    if (against) dropAgainst();
    else drawAgainst(...plotsOfCurves());
    redraw();
    return Boolean(against);
  });
}

function plotsOfCurves() { return charts.filter((chart) => chart.panel.kind === "curves" && chart !== against?.chart); }

function drawAgainst(y, x = y) {
  dropAgainst();
  const figure = element("figure", "curves against"), choices = element("div", "pair"), { noisy, steady } = y.panel;
  figure.append(element("h2", "", `${titleOf(y)} against ${titleOf(x)}`), choices, element("div", "plot"));
  pinnedPlace().prepend(figure);
  build({
    kind: "curves", name: "against", title: `${titleOf(y)} against ${titleOf(x)}`, y: y.panel.y,
    axes: [{ name: "against", title: titleOf(x), unit: x.panel.y.unit }], noisy, steady, link: "against", series: [], marks: [], levels: [],
  }, figure, null);
  const chart = charts[charts.length - 1];
  chart.series = y.series.map((own, index) => pointsOf(own, index, partnerOf(own, x))).filter(Boolean);
  chart.legend.replaceWith((chart.legend = legendOf(chart)));
  addTools(chart);
  against = { chart, y, x };
  choices.append(choiceOf("y", y, (chosen) => drawAgainst(chosen, x)), choiceOf("x", x, (chosen) => drawAgainst(y, chosen)));
}

function dropAgainst() {
  if (against) dropChart(against.chart);
  against = null;
}

function choiceOf(name, chosen, change) {
  const label = element("label", "group"), choice = element("select");
  for (const chart of plotsOfCurves()) choice.append(Object.assign(element("option", "", titleOf(chart)), { value: chart.panel.name, selected: chart === chosen }));
  choice.addEventListener("change", () => { change(chartNamed(choice.value)); redraw(); document.querySelector(`.against [aria-label="${name}"]`).focus(); });
  choice.ariaLabel = name;
  label.append(element("span", "label", name), choice);
  return label;
}

function titleOf(chart) { return chart.canvas.closest("figure").querySelector("h2, h3").textContent; }

// The other metric of the same run, and there of the same GPU; of the only run, else its first curve.
function partnerOf(own, { series }) {
  const same = view.runs.length > 1 ? series.filter((other) => own.run && other.run === own.run) : series;
  const begins = (a, b) => `${a.name} `.startsWith(`${b.name} `);
  return same.find((other) => begins(own, other) || begins(other, own)) || same[0];
}

// In ascending order of x; without a place that both know, or outside of what the other covers, there is no point.
function pointsOf(own, index, other) {
  const axis = other && Object.keys(own.x).find((name) => other.x[name]?.length);
  if (!axis) return null;
  const places = own.x[axis], known = other.x[axis], there = along(places, known, other.y), points = [];
  for (let i = 0; i < places.length; i++)
    if (places[i] >= known[0] && places[i] <= known[known.length - 1] && Number.isFinite(there[i]) && Number.isFinite(own.y[i])) points.push([there[i], own.y[i]]);
  points.sort((a, b) => a[0] - b[0]);
  const { run, tint } = own, name = own.name === other.name ? own.name : `${own.name} against ${other.name}`, column = (at) => Float64Array.from(points, (point) => point[at]);
  return { name, run, tint, index, style: "points", x: { against: column(0) }, y: column(1), measured: points.length, hidden: false, folded: own.folded };
}
