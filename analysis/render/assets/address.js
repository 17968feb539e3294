// The page's address: the plot that it leads to, and how the page stood around it, written by `link` and read again:
// `#loss&x=tokens&log=1&smooth=0.02&off=d16&color=d24+d55e00&pin=mfu&against=mfu,loss&zoom=100,500&y-loss=2.5,3.5`.

function writeAddress(chart) {
  const words = new URLSearchParams(), zoom = view.zoom.get(linkOf(chart));
  if (view.axis) words.set("x", view.axis);
  if (view.logX) words.set("log", "1");
  if (view.wholeRuns) words.set("whole", "1");
  words.set("smooth", view.smoothing);
  for (const run of view.hiddenRuns) words.append("off", run);
  for (const [run, color] of view.colors) words.append("color", `${run} ${color.slice(1)}`);
  for (const figure of pinned()) words.append("pin", figure.id);
  if (against) words.set("against", [against.y, against.x].map((other) => other.panel.name));
  if (zoom) words.set("zoom", zoom.join());
  for (const other of charts) if (other.yZoom) words.set(`y-${other.panel.name}`, other.yZoom.join());
  history.replaceState(null, "", `#${encodeURIComponent(chart.panel.name)}&${words}`);
  navigator.clipboard?.writeText(location.href).catch(() => {}); // a browser may refuse; the address bar has it
}

function readAddress() {
  const [name, ...rest] = location.hash.slice(1).split("&"), words = new URLSearchParams(rest.join("&"));
  const [y, x] = (words.get("against") || "").split(",").map(chartNamed);
  if (x && y) {
    if (!against) pressed("y against x");
    drawAgainst(y, x);
  }
  const chart = chartNamed(decodeURIComponent(name));
  if (!chart) return;
  choose("axis", words.get("x"), "change");
  choose("smoothing", STEPS.indexOf(Number(words.get("smooth") ?? view.smoothing)), "input");
  view.wholeRuns = view.wholeRuns || words.has("whole");
  if (words.get("log") && !view.logX) pressed("log x");
  const off = new Set(words.getAll("off"));
  if (rest.length) for (const run of view.runs) if (off.has(run) !== view.hiddenRuns.has(run)) pressed(run);
  for (const word of words.getAll("color")) paintRun(word.slice(0, -7), `#${word.slice(-6)}`);
  for (const pin of words.getAll("pin")) if (!pinned().some((figure) => figure.id === pin)) chartNamed(pin)?.pin();
  const zoom = rangeOf(words.get("zoom"));
  if (zoom) view.zoom.set(linkOf(chart), zoom);
  for (const other of charts) other.yZoom = rangeOf(words.get(`y-${other.panel.name}`));
  measureBar();
  chart.canvas.closest("figure").scrollIntoView();
}

function chartNamed(name) { return charts.find((chart) => chart.panel.name === name); }

// `100,500`; null where it is no range.
function rangeOf(words) {
  const range = (words || "").split(",").map(Number);
  return range.length === 2 && range.every(Number.isFinite) && range[0] < range[1] ? range : null;
}

function choose(id, value, event) {
  const control = document.getElementById(id);
  if (!control || value === null || value < 0) return;
  control.value = value;
  control.dispatchEvent(new Event(event));
}

function pressed(name) {
  [...document.querySelectorAll("#controls button")].find((chip) => chip.textContent === name)?.click();
}
