// Where each run stands: a card with its numbers, what comes next, and what is wrong now. Text is set as text.

const LAST = [["loss", "loss"], ["val_loss", "validation"], ["val_bpb", "validation, bits/byte"], ["tok_per_sec", "tok/s"],
  ["mfu", "MFU"], ["grad_norm", "gradient norm"], ["lr", "learning rate"], ["lrm", "lr multiplier"]];

function figureOf(value) {
  return typeof value === "number" ? exactly(Number(value.toPrecision(7))) : value;
}

function drawStanding(place) {
  place.querySelector(".table")?.remove();
  model.runs.forEach((run, number) => {
    const facts = partOf(run, "facts");
    if (!facts) return;
    const card = place.children[number] || place.appendChild(newCard());
    card.hidden = !wanted(facts.name);
    card.querySelector("i").style.background = model.runs.length > 1 ? tint(number) : "transparent";
    card.querySelector("i").hidden = model.runs.length < 2;
    say(card.querySelector("h2"), facts.name);
    card.querySelector("h2").hidden = model.runs.length < 2; // the page has its name already
    const status = card.querySelector(".status");
    say(status, facts.status);
    status.className = `status ${facts.status}`;
    say(card.querySelector(".source"), [facts.source, facts.phase, facts.attempt > 1 ? `attempt ${facts.attempt}` : ""].filter(Boolean).join(" · "));
    say(card.querySelector(".caution"), facts.caution || "");
    say(card.querySelector(".cause"), facts.cause || "");
    lines(card.querySelector(".alarms"), facts.alarms, "alarm");
    const track = card.querySelector(".track");
    track.hidden = facts.step === null || !facts.total_steps;
    track.firstChild.style.width = `${facts.status === "completed" ? 100 : Math.min(100, (100 * facts.step) / facts.total_steps)}%`;
    drawNumbers(card.querySelector(".numbers"), numbersOf(facts));
    drawUpcoming(card.querySelector(".upcoming"), facts);
  });
  while (place.children.length > model.runs.length) place.lastChild.remove();
}

function newCard() {
  const card = element("article", "run"), name = element("div", "name"), track = element("div", "track");
  name.append(element("i"), element("h2"), element("span", "status"), element("span", "source"));
  track.append(element("div"));
  card.append(name, element("p", "caution"), element("div", "alarms"), element("p", "cause"), track, element("dl", "numbers"), element("p", "upcoming"));
  return card;
}

// Label, value, what is said of it in small, whether it is too much.
function numbersOf(facts) {
  const numbers = [], cost = facts.cost;
  const add = (label, value, more, over) => { if (value !== null && value !== undefined) numbers.push([label, value, more || "", Boolean(over)]); };
  add("step", facts.step === null ? null : exactly(facts.step) + (facts.total_steps ? ` of ${exactly(facts.total_steps)}` : ""));
  for (const [name, label] of LAST)
    if (name in facts.last) add(label, figureOf(facts.last[name]) + (name === "mfu" ? " %" : ""));
  add("time left", facts.eta_s === null ? null : span(facts.eta_s), facts.eta_s === null ? "" : `at ${clock(Date.now() / 1000 + facts.eta_s)}`);
  add("elapsed", facts.elapsed_s === null ? null : span(facts.elapsed_s));
  add("time per step", facts.seconds_a_step === null ? null : span(facts.seconds_a_step));
  add("epoch", facts.epoch === null ? null : figureOf(facts.epoch));
  if (cost) add("cost so far", money(cost.spent), [cost.at_end === null ? "" : `${money(cost.at_end)} at the end`, cost.budget === null ? "" : `of ${money(cost.budget)}`, cost.caution || ""].filter(Boolean).join(", "), cost.is_over);
  if (facts.silent_s > 30) add("silent for", span(facts.silent_s));
  for (const [node, host, users] of facts.machines) {
    if ("cpu_busy" in host) add(node ? `CPU of node ${node}` : "CPU", `${Math.round(host.cpu_busy)} %`, memory(host));
    if (users.length) add(node ? `on the GPUs of node ${node}` : "on the GPUs", exactly(users.length), users.join(", "));
  }
  for (const [whose, seconds, parts] of facts.step_parts) add(whose ? `step of ${whose}` : "step, last minute", span(seconds), parts);
  if (facts.ranks.length > 1) add("ranks", exactly(facts.ranks.length), ranks(facts.ranks));
  return numbers;
}

function memory(host) {
  return "mem_used_mib" in host ? `${figureOf(Math.round(host.mem_used_mib / 102.4) / 10)} GiB of memory used` : "";
}

function ranks(all) {
  const steps = all.map(([, step]) => step).filter((step) => step !== null);
  if (!steps.length) return "";
  const low = Math.min(...steps), high = Math.max(...steps);
  return low === high ? `all at ${exactly(high)}` : `at ${exactly(low)} to ${exactly(high)}`;
}

function drawNumbers(list, numbers) {
  numbers.forEach(([label, value, more, over], at) => {
    const row = list.children[at] || list.appendChild(newNumber());
    say(row.children[0], label);
    say(row.children[1].firstChild, value);
    say(row.children[1].lastChild, more);
    row.children[1].classList.toggle("over", over);
  });
  while (list.children.length > numbers.length) list.lastChild.remove();
}

function newNumber() {
  const row = element("div"), value = element("dd");
  value.append(element("span"), element("small"));
  row.append(element("dt"), value);
  return row;
}

function drawUpcoming(place, facts) {
  const pieces = facts.upcoming.map(([kind, step, at]) => {
    const piece = element("span"), when = at === null ? "" : `, ${clock(at)}`;
    piece.append(element("b", "", kind), ` at step ${exactly(step)}${when}`);
    return piece;
  });
  place.replaceChildren(...(pieces.length ? ["next", ...pieces] : []));
}

function lines(place, texts, name) {
  texts.forEach((text, at) => say(place.children[at] || place.appendChild(element("p", name)), text));
  while (place.children.length > texts.length) place.lastChild.remove();
}

// Nothing is written where it stands already: a selection of text survives.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
  if (node.tagName === "P") node.hidden = text === "";
}

function span(seconds) {
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (minutes < 60) return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  const rest = `${hours % 24} h ${String(minutes % 60).padStart(2, "0")} min`;
  return days ? `${days} d ${rest}` : rest;
}

// In the viewer's own time, with the day where it is not today.
function clock(seconds) {
  const at = new Date(1000 * seconds), two = (number) => String(number).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

function money(value) {
  return `$${value.toFixed(2)}`.replace(/\B(?=(\d{3})+\.)/g, ",");
}

// Room for a table that may be wider than the window; the arrow keys move it.
function scrollBox() {
  return Object.assign(element("div", "scroll"), { tabIndex: 0 });
}
