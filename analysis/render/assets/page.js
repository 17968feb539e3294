// The page: builds a plot in every figure, the controls above them, and redraws what a control changes.

const view = { axis: null, smoothing: 0.01, hiddenRuns: new Set(), hiddenKinds: new Set(), zoom: new Map(), tints: [] };
const charts = [];
const FEW_RUNS = 4; // what happened in more than these would be a fence before the curves
const STEPS = [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]; // of the smoothing, as shares of the axis
let printing = false, look = null;

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return !printing && (chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
}

function inks() {
  const style = getComputedStyle(document.documentElement), ink = (name) => style.getPropertyValue(`--${name}`).trim();
  return { font: `12px ${ink("font")}`, grid: ink("grid"), quiet: ink("quiet"), loud: ink("loud"), paper: ink("paper"), select: ink("select") };
}

function tint(number) { return view.tints[number % view.tints.length]; }
function kindColour(kind) { return view.kinds[kind] || view.kinds[""]; }
function linkOf(chart) { return `${chart.panel.link || chart.panel.name} ${chart.axis().name}`; }

// Plots of one link reach equally far, so that what happened at once stands below each other; but for a plot whose
// curves would be squeezed into a corner by that.
function wholeRange(chart) {
  const link = linkOf(chart), own = chart.domain();
  const all = reach(charts.filter((other) => linkOf(other) === link).flatMap((other) => other.domain() || []));
  return own && own[1] - own[0] < (all[1] - all[0]) / 5 ? own : all;
}

function redraw() {
  const theme = dark() ? "dark" : "light";
  view.tints = look.tints[theme];
  view.kinds = look.kinds[theme];
  for (const chart of charts) {
    chart.draw(chart.canvas);
    chart.over.setAttribute("aria-label", chart.says());
    colourLegend(chart);
  }
  for (const piece of document.querySelectorAll("[data-colour]")) piece.style.background = kindColour(piece.dataset.colour);
  pointNowhere();
}

function build(panel, figure, bytes) {
  const plot = figure.querySelector(".plot");
  if (panel.kind === "bars") return drawBars(panel, plot);
  const chart = panel.kind === "heat" ? heatChart(panel, bytes) : curvesChart(panel, bytes);
  chart.canvas = element("canvas");
  chart.over = element("canvas", "over");
  chart.over.tabIndex = 0;
  chart.over.setAttribute("role", "img");
  figure.id = panel.name;
  plot.append(element("div", "y-title", panel.kind === "heat" ? axisTitle(panel.y) : panel.y.unit || panel.y.title));
  const paper = element("div", "paper");
  paper.append(chart.canvas, chart.over);
  plot.append(paper);
  plot.after(chart.legend = legendOf(chart));
  charts.push(chart);
  listen(chart, plot, chart.over);
}

function axisTitle(axis) {
  return axis.unit && axis.unit !== "s" ? `${axis.title} (${axis.unit})` : axis.title;
}

function legendOf(chart) {
  const legend = element("div", "legend");
  if (chart.panel.kind === "heat") legend.append(heatKey(chart.panel));
  for (const own of chart.series) {
    const chip = toggle(own.name, () => { own.hidden = !own.hidden; redraw(); return !own.hidden; });
    own.chip = chip;
    legend.append(chip);
  }
  if (chart.panel.kind === "curves") {
    const tools = element("span", "tools");
    if (chart.panel.steady) tools.append(tool(chart, "outliers", "outliers"));
    tools.append(tool(chart, "log", "log scale"));
    legend.append(tools);
  }
  return legend;
}

function tool(chart, property, name) {
  const chip = toggle(name, () => { chart[property] = !chart[property]; redraw(); return chart[property]; });
  chip.classList.add("tool");
  chip.setAttribute("aria-pressed", String(chart[property]));
  return chip;
}

function colourLegend(chart) {
  for (const own of chart.series) {
    own.chip.querySelector("i").style.background = tint(own.tint);
    own.chip.disabled = view.hiddenRuns.has(own.run) || !own.x[chart.axis().name];
  }
}

function toggle(name, change) {
  const chip = element("button", "chip");
  chip.type = "button";
  chip.append(element("i"), name);
  chip.setAttribute("aria-pressed", "true");
  chip.addEventListener("click", () => chip.setAttribute("aria-pressed", String(change())));
  return chip;
}

function controls(panels, runs) {
  const bar = document.getElementById("controls");
  const axes = new Map(panels.filter((panel) => panel.kind === "curves" && panel.axes.length > 1).flatMap((panel) => panel.axes.map((axis) => [axis.name, axis.title])));
  if (runs.length > 1) bar.append(switches("runs", runs, view.hiddenRuns, runTint(panels)));
  if (axes.size > 1) bar.append(axisSwitch(axes));
  if (panels.some((panel) => panel.noisy)) bar.append(slider());
  const kinds = kindsOf(panels);
  if (runs.length > FEW_RUNS) kinds.forEach((_, kind) => view.hiddenKinds.add(kind));
  if (kinds.size) bar.append(switches("shown behind", [...kinds.keys()], view.hiddenKinds, (kind) => ["kind", kinds.get(kind)]));
  const whole = element("button", "chip plain", "whole range");
  whole.addEventListener("click", () => { view.zoom.clear(); redraw(); });
  const theme = element("button", "chip plain", "light / dark");
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; redraw(); });
  bar.append(whole, theme);
  bar.hidden = false;
}

function kindsOf(panels) {
  return new Map(panels.flatMap((panel) => (panel.marks || []).map((mark) => [mark.kind, mark.colour])));
}

function runTint(panels) {
  const tints = new Map(panels.flatMap((panel) => (panel.series || []).map((own) => [own.run, own.tint])));
  return (run) => ["tint", tints.get(run) ?? 0];
}

function switches(title, names, hidden, colourOf) {
  const group = element("span", "group");
  group.append(element("span", "label", title));
  for (const name of names) {
    const chip = toggle(name, () => { if (!hidden.delete(name)) hidden.add(name); redraw(); return !hidden.has(name); });
    const [how, colour] = colourOf(name);
    chip.setAttribute("aria-pressed", String(!hidden.has(name)));
    if (how === "kind") chip.querySelector("i").dataset.colour = colour;
    else chip.querySelector("i").style.background = tint(colour);
    group.append(chip);
  }
  return group;
}

function axisSwitch(axes) {
  const group = element("label", "group"), choice = element("select");
  choice.id = "axis";
  for (const [name, title] of axes) { const option = element("option", "", title); option.value = name; choice.append(option); }
  choice.addEventListener("change", () => { view.axis = choice.value; redraw(); });
  group.append(element("span", "label", "by"), choice);
  return group;
}

function slider() {
  const group = element("label", "group"), range = element("input"), said = element("output");
  Object.assign(range, { type: "range", id: "smoothing", min: 0, max: STEPS.length - 1, step: 1, value: STEPS.indexOf(view.smoothing) });
  const say = () => { said.textContent = view.smoothing ? `running mean over ${100 * view.smoothing} % of the axis` : "none"; };
  range.addEventListener("input", () => { view.smoothing = STEPS[range.value]; say(); redraw(); });
  say();
  group.append(element("span", "label", "smoothing"), range, said);
  return group;
}

async function start() {
  const data = JSON.parse(document.getElementById("panels").textContent);
  const bytes = await unpack(document.getElementById("numbers").textContent);
  look = data.style;
  view.heat = look.heat;
  view.tints = look.tints[dark() ? "dark" : "light"];
  view.kinds = look.kinds[dark() ? "dark" : "light"];
  data.panels.forEach((panel, number) => build(panel, document.querySelector(`[data-panel="${number}"]`), bytes));
  controls(data.panels, data.runs);
  redraw();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { printing = true; redraw(); });
  addEventListener("afterprint", () => { printing = false; redraw(); });
  document.documentElement.dataset.painted = String(Math.round(performance.now()));
}

start();
