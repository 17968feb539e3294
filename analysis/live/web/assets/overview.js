// Many runs: a compact table instead of a card each, a filter by name, and the smoothing of all curves.

const MOST_CARDS = 4;
const SMOOTHINGS = [0, 0.01, 0.02, 0.05, 0.1]; // shares of the axis
const CELLS = [["run"], ["status"], ["step"], ["loss"], ["tok/s"], ["MFU, %"], ["time left"], ["cost"]];
let wanted = () => true; // whether a run of this name is shown

function drawRuns(place) {
  const many = model.runs.length > MOST_CARDS;
  document.body.classList.toggle("many", many);
  document.getElementById("filter").hidden = model.runs.length < 2;
  if (!many) return drawStanding(place);
  let table = place.querySelector("table");
  if (!table) {
    const box = element("div", "table"), scroll = scrollBox();
    table = element("table", "overview");
    const head = table.createTHead().insertRow();
    for (const [title] of CELLS) head.append(Object.assign(element("th", "", title), { scope: "col" }));
    table.createTBody();
    scroll.append(table);
    box.append(element("p", "caution"), scroll);
    place.replaceChildren(box);
  }
  const cautions = new Set(model.runs.map((run) => partOf(run, "facts")?.caution).filter(Boolean));
  say(place.querySelector(".caution"), [...cautions].join(" "));
  const body = table.tBodies[0];
  model.runs.forEach((run, number) => {
    const facts = partOf(run, "facts");
    if (facts) drawRow(body.rows[number] || newRow(body, number), facts, number);
  });
  while (body.rows.length > model.runs.length) body.lastChild.remove();
  hideEmptyColumns(table);
}

// Columns in which no run has anything.
function hideEmptyColumns(table) {
  const rows = [...table.tBodies[0].rows];
  for (let at = 2; at < CELLS.length; at++) {
    const empty = rows.every((row) => !row.cells[at].textContent);
    for (const row of table.rows) row.cells[at].hidden = empty;
  }
}

function newRow(body, number) {
  const row = body.insertRow(), name = element("th", "name");
  name.scope = "row";
  name.append(element("i"), element("span"), element("div", "alarm"));
  row.append(name, ...CELLS.slice(1).map(() => element("td")));
  row.cells[1].append(element("span", "status"));
  pointedAt(row, String(number));
  return row;
}

function drawRow(row, facts, number) {
  const shown = (name) => (name in facts.last ? figureOf(facts.last[name]) : "");
  row.hidden = !wanted(facts.name);
  row.title = [facts.source, facts.caution].filter(Boolean).join(" · ");
  row.querySelector("i").style.background = swatchColor(number);
  say(row.querySelector("span"), facts.name);
  const status = row.querySelector(".status");
  status.className = `status ${facts.status}`;
  say(status, facts.status);
  const texts = [
    facts.step === null ? "" : exactly(facts.step) + (facts.total_steps ? `/${exactly(facts.total_steps)}` : ""),
    shown("loss"), shown("tok_per_sec"), shown("mfu"), facts.eta_s === null ? "" : span(facts.eta_s),
    facts.cost ? money(facts.cost.spent) : "",
  ];
  texts.forEach((text, at) => say(row.cells[at + 2], text));
  say(row.querySelector(".alarm"), [...facts.alarms, facts.cause].filter(Boolean).join("; "));
}

// Leaves out whatever is of other runs; a chip still hides any other curve by itself.
function filterRuns(text) {
  wanted = fitting(text);
  for (const chart of shownPanels.values())
    for (const series of chart.series) series.hidden = series.leftOut = !wanted(view.nameOf(series.run));
  again();
}

document.getElementById("filter").addEventListener("input", (event) => filterRuns(event.target.value));
const logX = document.getElementById("logx");
logX.addEventListener("click", () => { view.logX = !view.logX; logX.setAttribute("aria-pressed", String(view.logX)); again(); });
const smoothing = document.getElementById("smoothing");
view.smoothing = SMOOTHINGS[smoothing.value];
smoothing.addEventListener("input", () => { view.smoothing = SMOOTHINGS[smoothing.value]; again(); });
