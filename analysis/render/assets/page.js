// The page: the controls above its plots, and how it begins.

const FEW_RUNS = 4; // what happened in more than these would be a fence before the curves
const MANY_RUNS = 8, MANY_PANELS = 12; // from which on one searches by name
const READ_FROM = 20; // CSS pixels below the controls, a little more than where a link brings a heading
const STEPS = [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]; // of the smoothing, as shares of the axis

function controls(panels, runs) {
  const bar = document.getElementById("controls");
  const axes = axesOf(panels.filter((panel) => panel.kind === "curves" && panel.axes.length > 1));
  if (runs.length > 1) bar.append(runSwitches(runs));
  if (axes.size > 1) bar.append(axisSwitch(axes));
  if (panels.some((panel) => panel.kind === "curves")) bar.append(pressable("log x", () => { view.logX = !view.logX; redraw(); return view.logX; }));
  if (plotsOfCurves().length > 1) bar.append(againstChip());
  if (panels.some((panel) => panel.noisy)) bar.append(slider());
  const kinds = kindsOf(panels);
  if (runs.length > FEW_RUNS) kinds.forEach((_, kind) => view.hiddenKinds.add(kind));
  if (kinds.size) bar.append(switches("markers", [...kinds.keys()], view.hiddenKinds, (kind) => ["color", kinds.get(kind)]));
  if (charts.length > MANY_PANELS) bar.append(search("find a plot", (fits) => { for (const figure of document.querySelectorAll("figure")) figure.hidden = !fits(figure.querySelector("h2, h3").textContent); redraw(); }));
  if (charts.length) bar.append(plainChip("reset zoom", resetZoom));
  const theme = plainChip("light / dark", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; redraw(); });
  const ofPage = charts.length ? [theme, plainChip("keys", showKeys)] : [theme];
  for (const chip of ofPage) chip.classList.add("of-page");
  bar.append(...ofPage);
  bar.hidden = false;
}

function plainChip(name, act) {
  const chip = element("button", "chip plain", name);
  chip.type = "button";
  chip.addEventListener("click", act);
  return chip;
}

// Off at first; `act` answers whether it is on.
function pressable(name, act) {
  const chip = plainChip(name, () => chip.setAttribute("aria-pressed", String(act())));
  chip.classList.add("tool");
  chip.setAttribute("aria-pressed", "false");
  return chip;
}

// Every run by name; of many, only those whose name holds what is typed, and all or none at once.
function runSwitches(runs) {
  const group = switches("runs", runs, view.hiddenRuns, (run) => ["tint", view.tintOf(run)]), chips = [...group.querySelectorAll(".chip")];
  const show = (wanted) => {
    runs.forEach((run, i) => { view.hiddenRuns[wanted(run) ? "delete" : "add"](run); chips[i].setAttribute("aria-pressed", String(wanted(run))); });
    redraw();
  };
  runs.forEach((run, i) => {
    pointedAt(chips[i], run);
    chips[i].title = "double click: only this run";
    chips[i].addEventListener("dblclick", () => show((other) => other === run));
  });
  if (runs.length > 2) group.append(plainChip("all", () => show(() => true)), plainChip("none", () => show(() => false)));
  if (charts.length) group.append(plainChip("colors", () => showColors(runs)));
  if (runs.length > MANY_RUNS) {
    group.append(search("find a run", (fits) => { runs.forEach((run, i) => { chips[i].hidden = !fits(run); }); show(fits); }));
  }
  return group;
}

function search(title, found) {
  const field = Object.assign(element("input", "search"), { type: "search", placeholder: title, ariaLabel: title });
  field.title = "part of a name, or a regular expression";
  field.addEventListener("input", () => found(fitting(field.value)));
  return field;
}

// By name; the first plot's own first axis, which is shown, is the first.
function axesOf(panels) {
  return new Map(panels.flatMap((panel) => panel.axes.map((axis) => [axis.name, axis.title])));
}

function kindsOf(panels) {
  return new Map(panels.flatMap((panel) => (panel.marks || []).map((mark) => [mark.kind, mark.color])));
}

function runTint(panels) {
  const tints = new Map(panels.flatMap((panel) => (panel.series || []).map((own) => [own.run, own.tint])));
  return (run) => tints.get(run) ?? 0;
}

function switches(title, names, hidden, colorOf) {
  const group = element("span", "group");
  group.append(element("span", "label", title));
  for (const name of names) {
    const chip = toggle(name, () => { if (!hidden.delete(name)) hidden.add(name); redraw(); return !hidden.has(name); });
    const [how, color] = colorOf(name);
    chip.setAttribute("aria-pressed", String(!hidden.has(name)));
    chip.querySelector("i").dataset[how] = color;
    group.append(chip);
  }
  return group;
}

function axisSwitch(axes) {
  const group = element("label", "group"), choice = element("select");
  choice.id = "axis";
  for (const [name, title] of axes) { const option = element("option", "", title); option.value = name; choice.append(option); }
  choice.addEventListener("change", () => { view.axis = choice.value; redraw(); });
  group.append(element("span", "label", "x axis"), choice);
  return group;
}

function slider() {
  const group = element("label", "group"), range = element("input"), said = element("output");
  Object.assign(range, { type: "range", id: "smoothing", min: 0, max: STEPS.length - 1, step: 1, value: STEPS.indexOf(view.smoothing) });
  const say = () => { said.textContent = view.smoothing ? `mean over ${100 * view.smoothing} %` : "none"; };
  range.addEventListener("input", () => { view.smoothing = STEPS[range.value]; say(); redraw((chart) => chart.panel.noisy); });
  say();
  group.append(element("span", "label", "smoothing"), range, said);
  return group;
}

// The table of contents marks the section that is at the top of the window.
function follow(links) {
  const heads = [...links].map((link) => document.getElementById(link.hash.slice(1)));
  const mark = () => {
    const top = document.querySelector(".bar").offsetHeight + READ_FROM;
    const at = heads.findLastIndex((head) => head.getBoundingClientRect().top < top);
    links.forEach((link, i) => (i === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  if (heads.length) addEventListener("scroll", mark, { passive: true });
}

// A link brings a heading or a plot to below the controls, which are as high as the runs need. Measured only then: it
// makes the browser lay out the page once more.
function measureBar() {
  const bar = document.querySelector(".bar"), height = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
  document.documentElement.style.setProperty("--bar", `${height}px`);
}

async function start() {
  const data = JSON.parse(document.getElementById("panels").textContent);
  const bytes = await unpack(document.getElementById("numbers").textContent);
  look = data.style;
  view.heat = look.heat;
  view.runs = data.runs;
  view.tintOf = runTint(data.panels);
  view.tints = look.tints[dark() ? "dark" : "light"];
  view.kinds = look.kinds[dark() ? "dark" : "light"];
  for (const panel of data.panels) if (panel.kind === "curves") panel.marks = data.marks[panel.marks];
  data.panels.forEach((panel, number) => build(panel, document.querySelector(`[data-panel="${number}"]`), bytes));
  for (const chart of charts) addTools(chart);
  const conversions = data.conversions.map((own) => ({ ...own, seconds: numbersAt(bytes, own.seconds), values: numbersAt(bytes, own.values) }));
  addAxes(charts, data.runs, conversions);
  for (const table of document.querySelectorAll("main table")) makeSortable(table);
  for (const holder of document.querySelectorAll("[data-target]")) makeExplorable(holder);
  controls(data.panels, data.runs);
  follow(document.querySelectorAll(".contents a"));
  readAddress();
  redraw();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  addEventListener("keydown", (event) => { if (event.key === "?" && event.target.tagName !== "INPUT") showKeys(); });
  addEventListener("click", (event) => { if (event.target.closest?.("a[href^='#']")) measureBar(); });
  addEventListener("hashchange", () => { readAddress(); redraw(); });
  addEventListener("beforeprint", layOutForPrint);
  addEventListener("afterprint", layOutForScreen);
  document.documentElement.dataset.painted = String(Math.round(performance.now()));
}

start();
