// Plots in their figures, with legends; what all of them share, and drawing them again.

const view = {
  runs: [], axis: null, logX: false, smoothing: 0.01, hiddenRuns: new Set(), hiddenKinds: new Set(), pointed: null, zoom: new Map(), wholeRuns: false, most: new Map(), tints: [],
  ownTints: new Map(), colors: new Map(), tintOf: () => 0, // by number of the tint, and by run
  nameOf: (run) => run, isRunning: () => false, // which only the live page knows
};
const PATTERNS = [ // of parts of bars, for those who tell colors apart with difficulty
  () => "none",
  (ink) => `repeating-linear-gradient(45deg, ${ink} 0 1.5px, transparent 1.5px 7px)`,
  (ink) => `repeating-linear-gradient(-45deg, ${ink} 0 1.5px, transparent 1.5px 7px)`,
  (ink) => `repeating-linear-gradient(90deg, ${ink} 0 1.5px, transparent 1.5px 6px)`,
  (ink) => `repeating-linear-gradient(0deg, ${ink} 0 1.5px, transparent 1.5px 6px)`,
  (ink) => `repeating-linear-gradient(45deg, ${ink} 0 1px, transparent 1px 5px), repeating-linear-gradient(-45deg, ${ink} 0 1px, transparent 1px 5px)`,
];
const charts = [];
const NEAR = 600; // CSS pixels above and below the window
let printing = false, themeOnScreen, look = null;

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function inks() {
  const style = getComputedStyle(document.documentElement), ink = (name) => style.getPropertyValue(`--${name}`).trim();
  return { font: `12px ${ink("font")}`, grid: ink("grid"), quiet: ink("quiet"), loud: ink("loud"), paper: ink("paper"), select: ink("select") };
}

function tint(number) { return view.ownTints.get(number) || view.tints[number % view.tints.length]; }
function kindColor(kind) { return view.kinds[kind] || view.kinds[""]; }
// As the curve is drawn: its color, broken where the curve is dashed.
function swatchColor(number, style) {
  const [ink, gap] = dashOf(number, style), color = tint(number);
  return ink ? `repeating-linear-gradient(90deg, ${color} 0 ${ink / 2}px, transparent ${ink / 2}px ${(ink + gap) / 2}px)` : color;
}
// In the color of its kind, and what is written on it in black or white, whichever stands out more.
function paintKind(piece) {
  const color = kindColor(piece.dataset.color), parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255);
  const light = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const dark = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179, ink = dark ? "rgba(0, 0, 0, .3)" : "rgba(255, 255, 255, .4)";
  piece.style.background = color;
  piece.style.backgroundImage = piece.dataset.pattern ? PATTERNS[piece.dataset.pattern % PATTERNS.length](ink) : "none";
  piece.style.color = dark ? "#000" : "#fff";
  if (piece.firstElementChild) piece.firstElementChild.style.background = color;
}
function linkOf(chart) { return `${chart.panel.link || chart.panel.name} ${chart.axis().name}`; }

// Plots of one link reach equally far, so that what happened at once stands below each other; but for a plot whose
// curves would be squeezed into a corner by that.
function wholeRange(chart) {
  const link = linkOf(chart), own = chart.domain();
  const all = reach(charts.filter((other) => linkOf(other) === link).flatMap((other) => other.domain() || []));
  return own && own[1] - own[0] < (all[1] - all[0]) / 5 ? own : all;
}

// What is shown before anyone zooms: the whole, unless a few long runs would squash all others; then as far as those
// go, and a run that is still going. Pictures have the same rule from ranges.py.
function firstRange(chart) { return mostRuns(chart)?.range || wholeRange(chart); }

// How far most runs go, and which go on, to where; null where the whole is shown.
function mostRuns(chart) {
  const link = linkOf(chart);
  if (!view.most.has(link)) view.most.set(link, reachOfMost(charts.filter((other) => other.panel.kind === "curves" && linkOf(other) === link), chart.axis()));
  return view.most.get(link);
}

function reachOfMost(group, axis) {
  if (view.wholeRuns || view.logX || axis.log || axis.unit === "clock") return null;
  const known = [...reachOfRuns(group, axis.name)].filter(([run, own]) => own && run && !view.hiddenRuns.has(run));
  if (known.length < look.long.least) return null;
  const low = Math.min(...known.map(([, own]) => own[0])), ends = known.map(([, own]) => own[1]).sort((a, b) => a - b);
  const running = known.filter(([run]) => view.isRunning(run)).map(([, own]) => own[1]);
  const usual = Math.max(low + look.long.times * (ends[Math.floor(look.long.share * (ends.length - 1))] - low), ...running);
  const high = ends.findLast((end) => end <= usual);
  if (high === ends.at(-1) || high <= low) return null;
  return { range: [low, high], longer: known.filter(([, own]) => own[1] > usual).map(([run]) => run), end: ends.at(-1) };
}

function redraw(concerns = () => true) {
  const theme = dark() ? "dark" : "light";
  view.tints = look.tints[theme];
  view.kinds = look.kinds[theme];
  view.most.clear();
  for (const chart of charts.filter(concerns)) chart.stale = true;
  for (const chart of charts.filter(isNear)) paintPlot(chart);
  for (const piece of document.querySelectorAll("[data-color]")) paintKind(piece);
  for (const piece of document.querySelectorAll("[data-tint]")) piece.style.background = swatchColor(Number(piece.dataset.tint));
  pointNowhere();
}

// Plots that are far from the window are drawn when they come near it; on paper all are.
function isNear(chart) {
  if (printing) return true;
  const box = chart.over.getBoundingClientRect();
  return box.height > 0 && box.top < innerHeight + NEAR && box.bottom > -NEAR;
}

function paintPlot(chart) {
  if (!chart.stale) return;
  chart.stale = false;
  chart.draw(chart.canvas);
  chart.over.setAttribute("aria-label", chart.says());
  colorLegend(chart);
}

const approaching = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) if (isIntersecting) paintPlot(charts.find((chart) => chart.over === target) || {});
}, { rootMargin: `${NEAR}px` });

// Before the sheet is laid out: plots in light colors and of its width, and tables that are too wide made smaller.
function layOutForPrint() {
  if (printing) return;
  printing = true;
  themeOnScreen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  for (const table of document.querySelectorAll(".scroll table")) {
    table.style.width = "min-content";
    table.style.setProperty("--print-zoom", Math.min(1, PRINTED / table.offsetWidth));
    table.style.width = "";
  }
  redraw();
}

function layOutForScreen() {
  printing = false;
  if (themeOnScreen) document.documentElement.dataset.theme = themeOnScreen;
  else delete document.documentElement.dataset.theme;
  redraw();
}

function build(panel, figure, bytes) {
  const plot = figure.querySelector(".plot");
  if (panel.kind === "bars") return drawBars(panel, plot);
  const chart = panel.kind === "heat" ? heatChart(panel, bytes) : curvesChart(panel, bytes);
  chart.canvas = element("canvas");
  chart.over = element("canvas", "over");
  chart.over.tabIndex = 0;
  chart.over.setAttribute("role", "img");
  chart.over.setAttribute("aria-label", panel.title);
  figure.id = panel.name;
  const title = panel.kind === "heat" ? axisTitle(panel.y) : panel.y.unit || panel.y.title, known = figure.querySelector("h2, h3")?.textContent || "";
  if (panel.y.unit || !known.toLowerCase().includes(title.toLowerCase())) plot.before(element("span", "y-title", title));
  const paper = element("div", "paper");
  paper.append(chart.canvas, chart.over);
  plot.append(paper);
  plot.after(chart.legend = legendOf(chart));
  charts.push(chart);
  approaching.observe(chart.over);
  listen(chart, plot, chart.over);
}

function dropChart(chart) {
  chart.canvas.closest("figure").remove();
  approaching.unobserve(chart.over);
  charts.splice(charts.indexOf(chart), 1);
}

function axisTitle(axis) {
  return axis.unit && !["s", "clock"].includes(axis.unit) ? `${axis.title} (${axis.unit})` : axis.title;
}

function legendOf(chart) {
  const legend = element("div", "legend");
  if (chart.panel.kind === "heat") legend.append(heatKey(chart.panel));
  const folded = element("span", "folded");
  for (const own of chart.series) {
    const chip = toggle(own.name, () => { own.hidden = !own.hidden; redraw(); return !own.hidden; });
    chip.setAttribute("aria-pressed", String(!own.hidden));
    own.chip = chip;
    chip.hidden = chart.series.length === 1 && view.runs.length < 2; // the title says it
    chip.classList.toggle("shared", view.runs.length > 1 && view.runs.includes(own.name));
    pointedAt(chip, own.run);
    (own.folded ? folded : legend).append(chip);
  }
  if (folded.childElementCount) legend.append(unfolding(folded), folded);
  for (const level of chart.panel.levels || []) legend.append(levelKey(level));
  if (chart.panel.kind === "curves") {
    const tools = element("span", "tools");
    if (chart.panel.steady || settles(chart)) tools.append(tool(chart, "whole", "all values"));
    tools.append(tool(chart, "log", "log scale"));
    legend.append(tools);
  }
  return legend;
}

// The names of curves that are not shown at first come at a click.
function unfolding(folded) {
  folded.hidden = true;
  const say = () => chip.setAttribute("aria-expanded", String(!folded.hidden));
  const chip = plainChip(`${folded.childElementCount} more`, () => { folded.hidden = !folded.hidden; say(); });
  say();
  return chip;
}

// Beside the plot: written over it, it would lie on the curves that come near its line.
function levelKey(level) {
  const key = element("span", "key level");
  key.append(element("i"), level.text);
  return key;
}

function tool(chart, property, name) {
  const chip = toggle(name, () => { chart[property] = !chart[property]; redraw(); return chart[property]; });
  chip.classList.add("tool");
  chip.setAttribute("aria-pressed", String(chart[property]));
  return chip;
}

function colorLegend(chart) {
  for (const own of chart.series) {
    own.chip.querySelector("i").style.background = swatchColor(own.tint, own.style);
    own.chip.disabled = view.hiddenRuns.has(own.run) || !own.x[chart.axis().name];
  }
}

// The curves of other runs step back while the pointer is on a run's name.
function pointedAt(chip, run) {
  const point = (name) => { if (view.pointed !== name) { view.pointed = name; redraw(); } };
  chip.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") point(run); });
  chip.addEventListener("pointerleave", () => point(null));
}

function toggle(name, change) {
  const chip = element("button", "chip");
  chip.type = "button";
  chip.append(element("i"), name);
  chip.setAttribute("aria-pressed", "true");
  chip.addEventListener("click", () => chip.setAttribute("aria-pressed", String(change())));
  return chip;
}
