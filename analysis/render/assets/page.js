// The page: the controls above its plots, and how it begins.

const FEW_RUNS = 4; // what happened in more than these would be a fence before the curves
const STEPS = [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]; // of the smoothing, as shares of the axis

function controls(panels, runs) {
  const bar = document.getElementById("controls");
  const axes = new Map(panels.filter((panel) => panel.kind === "curves" && panel.axes.length > 1).flatMap((panel) => panel.axes.map((axis) => [axis.name, axis.title])));
  if (runs.length > 1) bar.append(switches("runs", runs, view.hiddenRuns, runTint(panels)));
  if (axes.size > 1) bar.append(axisSwitch(axes));
  if (panels.some((panel) => panel.noisy)) bar.append(slider());
  const kinds = kindsOf(panels);
  if (runs.length > FEW_RUNS) kinds.forEach((_, kind) => view.hiddenKinds.add(kind));
  if (kinds.size) bar.append(switches("markers", [...kinds.keys()], view.hiddenKinds, (kind) => ["kind", kinds.get(kind)]));
  if (charts.length) bar.append(resetZoomButton());
  const theme = element("button", "chip plain", "light / dark");
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; redraw(); });
  bar.append(theme);
  bar.hidden = false;
}

function resetZoomButton() {
  const reset = element("button", "chip plain", "reset zoom");
  reset.addEventListener("click", () => { view.zoom.clear(); redraw(); });
  return reset;
}

function kindsOf(panels) {
  return new Map(panels.flatMap((panel) => (panel.marks || []).map((mark) => [mark.kind, mark.color])));
}

function runTint(panels) {
  const tints = new Map(panels.flatMap((panel) => (panel.series || []).map((own) => [own.run, own.tint])));
  return (run) => ["tint", tints.get(run) ?? 0];
}

function switches(title, names, hidden, colorOf) {
  const group = element("span", "group");
  group.append(element("span", "label", title));
  for (const name of names) {
    const chip = toggle(name, () => { if (!hidden.delete(name)) hidden.add(name); redraw(); return !hidden.has(name); });
    const [how, color] = colorOf(name);
    chip.setAttribute("aria-pressed", String(!hidden.has(name)));
    if (how === "kind") chip.querySelector("i").dataset.color = color;
    else chip.querySelector("i").style.background = tint(color);
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
  addEventListener("beforeprint", layOutForPrint);
  addEventListener("afterprint", layOutForScreen);
  document.documentElement.dataset.painted = String(Math.round(performance.now()));
}

start();
