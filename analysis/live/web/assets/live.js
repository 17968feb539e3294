// The live page: listens to the server, and draws what has changed once a frame at most. It connects again by itself.

const AGAIN_MS = 2000; // where the browser itself does not try any more
const SILENT_MS = 45000; // the server says every 15 s that it is there
view.nameOf = (run) => partOf(model.runs[run], "facts")?.name ?? "";
view.isRunning = (run) => ["running", "unknown"].includes(partOf(model.runs[run], "facts")?.status);
let source = null, heard = 0, changed = new Set(), planned = false;

function connect() {
  source?.close();
  source = new EventSource("/events");
  heard = Date.now();
  source.addEventListener("whole", (event) => { forget(); take(event); changed = null; });
  source.addEventListener("news", take);
  source.addEventListener("still", here);
  source.addEventListener("error", () => {
    showStatus("connection lost, trying again", true);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN_MS);
  });
}

function here() {
  heard = Date.now();
  showStatus("connected", false);
}

function take(event) {
  here();
  for (const part of JSON.parse(event.data)) {
    apply(part);
    changed?.add(part[2]);
  }
  plan();
}

function showStatus(text, broken) {
  const line = document.getElementById("line");
  say(line.lastElementChild, text);
  line.classList.toggle("broken", broken);
}

function plan() {
  if (planned || printing) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; if (!printing) paint(); });
}

function paint() {
  look = partOf(model.page, "look") || look;
  if (!look) return;
  colors();
  drawRuns(document.getElementById("runs"));
  drawAxisChoice();
  view.runs = model.runs.map((parts) => partOf(parts, "facts")?.name ?? "");
  drawPanels(document.getElementById("panels"), changed);
  drawGpus(document.getElementById("gpus"));
  drawEvents(document.getElementById("events"));
  title();
  changed = new Set();
  document.documentElement.dataset.painted ??= String(Math.round(performance.now()));
}

function colors() {
  const theme = dark() ? "dark" : "light";
  view.tints = look.tints[theme];
  view.kinds = look.kinds[theme];
}

function title() {
  const facts = model.runs.map((parts) => partOf(parts, "facts")).filter(Boolean);
  const names = facts.length === 1 ? facts[0].name : `${facts.length} runs`;
  const wrong = facts.some((run) => run.alarms.length) ? "! " : "";
  const at = facts.length === 1 && facts[0].step !== null ? ` · step ${exactly(facts[0].step)}` : "";
  document.title = `${wrong}${names}${at}`;
  say(document.getElementById("title"), facts.length ? names : "waiting for a run");
}

// Events and alarms of all runs, the last one first.
function drawEvents(place) {
  const rows = model.runs.flatMap((parts) => {
    const run = partOf(parts, "facts")?.name ?? "";
    return !wanted(run) ? [] : [...(partOf(parts, "events") || []), ...(partOf(parts, "alarms") || [])].map((event, order) => ({ run, event, order, at: momentOf(event[2]) }));
  });
  const key = JSON.stringify(rows.map((row) => row.event));
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  rows.sort((a, b) => (b.at ?? 0) - (a.at ?? 0) || (b.event[1] ?? 0) - (a.event[1] ?? 0) || b.order - a.order);
  const list = element("ul", "happenings");
  list.append(...rows.slice(0, 100).map(eventLine));
  const box = element("div", "table");
  box.append(element("h2", "", "Events and alarms"), list);
  place.replaceChildren(...(rows.length ? [box] : []));
}

function eventLine({ run, event: [kind, step, , text], at }) {
  const row = element("li"), wrong = kind === "alarm" ? " alarm" : "";
  row.append(element("span", "when", at === null ? "" : new Date(at).toLocaleString("sv")));
  row.append(element("span", wrong.trim(), nameOfEvent(kind)), element("span", "step", step === null ? "" : `step ${exactly(step)}`));
  row.append(element("span", `what${wrong}`, model.runs.length > 1 ? `${run}: ${text}` : text));
  return row;
}

function momentOf(time) {
  if (time === null) return null;
  const at = typeof time === "number" ? 1000 * time : Date.parse(time);
  return Number.isNaN(at) ? null : at;
}

function again() {
  if (!look) return;
  changed = null;
  for (const chart of shownPanels.values()) chart.reached = null;
  plan();
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  again();
});
document.getElementById("whole").addEventListener("click", resetZoom);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
addEventListener("resize", again);
addEventListener("beforeprint", () => { if (look) layOutForPrint(); });
addEventListener("afterprint", () => { if (look) layOutForScreen(); again(); });
setInterval(() => { if (Date.now() - heard > SILENT_MS) connect(); }, 5000);
connect();
