// The x axes of the live page: the step, and what follows from it by run: tokens, time, the wall clock.

const LIVE_AXES = [
  { name: "step", title: "step", unit: null }, { name: "tokens", title: "tokens", unit: null },
  { name: "time", title: "time", unit: "s", start_ms: null }, CLOCK,
];

let offered = LIVE_AXES.slice(0, 1);

// What the run's steps can be converted to; nothing of a run that says neither tokens nor times.
function conversionsOf(run) {
  const facts = partOf(run, "facts"), moments = partOf(run, "moments"), made = new Map();
  if (facts?.tokens_per_step) made.set("tokens", (steps) => Float64Array.from(steps, (step) => step * facts.tokens_per_step));
  if (moments?.[0].length) {
    made.set("time", (steps) => along(steps, moments[0], moments[1]));
    made.set("clock", (steps) => along(steps, moments[0], moments[1]).map((seconds) => facts.start_s + seconds));
  }
  return made;
}

function placesOf(run, step) {
  const x = { step };
  for (const [name, convert] of conversionsOf(run)) lazily(x, name, () => convert(step));
  return x;
}

// Of a single step, for what happened at it.
function placeOfStep(run, step) {
  return Object.fromEntries(Object.entries(placesOf(run, Float64Array.of(step))).map(([name, places]) => [name, places[0]]));
}

function drawAxisChoice() {
  const choice = document.getElementById("axis"), some = new Set(model.runs.flatMap((run) => [...conversionsOf(run).keys()]));
  offered = LIVE_AXES.filter(({ name }) => name === "step" || some.has(name));
  const key = offered.map(({ name }) => name).join();
  if (choice.dataset.key !== key) {
    choice.dataset.key = key;
    choice.replaceChildren(...offered.map(({ name, title }) => Object.assign(element("option", "", title), { value: name })));
    choice.value = offered.some(({ name }) => name === view.axis) ? view.axis : "step";
  }
  choice.closest("label").hidden = offered.length < 2;
  for (const chart of shownPanels.values()) chart.panel.axes = offered;
}

document.getElementById("axis").addEventListener("change", (event) => { view.axis = event.target.value; again(); });
