// What can be taken from a plot or done with it: its picture, its numbers, its link; larger; and which keys there are.

const LINE = 20; // CSS pixels of a line of a picture
const KEYS = [["drag", "zoom into a span; up or down as well: into a box"], ["Shift + drag", "move"],
  ["Ctrl + wheel, two fingers", "zoom about the pointer"], ["double click, Esc", "show the whole"],
  ["Tab", "go to the next plot or switch"], ["← →", "walk along the curve; with Shift in longer steps"], ["+ −", "zoom in, zoom out"],
  ["double click on a run", "show only this run"], ["?", "this list"]];

function addTools(chart) {
  const figure = chart.canvas.closest("figure");
  const place = figure.querySelector(".tools") || chart.legend.appendChild(element("span", "tools"));
  place.append(
    ...(chart.panel.kind === "curves" ? [heightTool(chart)] : []),
    action("larger", "larger or smaller", () => { figure.classList.toggle("large"); redraw(); }),
    action("link", "the page's address with this view of the plot", () => writeAddress(chart)),
    action("table", "the figures behind the plot", () => showFigures(chart)),
    takings(chart),
  );
}

function heightTool(chart) {
  const chip = action("y range", "set by hand from where to where the plot reaches", () => askHeight(chart));
  chip.classList.add("height");
  return chip;
}

// Asks from where to where the plot reaches; nothing typed leaves it to the curves.
function askHeight(chart) {
  const { low, high } = chart.frame.ys, typed = prompt("y from, to; nothing: as the curves need", `${Number(low.toPrecision(4))}, ${Number(high.toPrecision(4))}`);
  if (typed === null) return;
  const range = typed.split(",").map(Number), valid = range.length === 2 && range[0] < range[1];
  if (valid || !typed.trim()) chart.yZoom = valid ? range : null;
  redraw();
}

// What can be taken away, behind one chip.
function takings(chart) {
  const menu = element("details", "save"), choices = element("span", "choices");
  choices.append(
    action("PNG", "save as a picture", () => save(chart, "png", picture(chart))),
    action("SVG", "save as a drawing", () => save(chart, "svg", svg(chart))),
    ...(chart.panel.kind === "curves" ? [action("CSV", "save what is drawn as a table", () => save(chart, "csv", csv(chart)))] : []),
    action("copy", "the picture into the clipboard", copy.bind(null, chart)),
  );
  menu.append(element("summary", "chip tool", "save"), choices);
  return menu;
}

// A browser may refuse the clipboard; the chip says how it went.
async function copy(chart, chip) {
  const done = await navigator.clipboard?.write([new ClipboardItem({ "image/png": picture(chart) })]).then(() => true, () => false);
  chip.textContent = done ? "copied" : "refused: save it";
  setTimeout(() => { chip.textContent = "copy"; }, 3000);
}

function action(name, title, act) {
  const chip = plainChip(name, () => { act(chip); });
  chip.classList.add("tool");
  chip.title = title;
  return chip;
}

async function save(chart, kind, content) {
  const link = element("a"), title = document.title.replace(/[^\p{L}\p{N}._-]+/gu, "-");
  link.href = URL.createObjectURL(await content);
  link.download = `${title}-${chart.panel.name}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// The plot with its title above and its shown curves' names below, as pixels or as SVG.
function picture(chart) {
  const plot = chart.canvas, ratio = plot.width / chart.frame.size.width, { width, height } = sheetSize(chart);
  const canvas = Object.assign(element("canvas"), { width: ratio * width, height: ratio * height }), pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  drawSheet(chart, pen);
  return new Promise((done) => canvas.toBlob(done));
}

function svg(chart) {
  const pen = new SvgPen(chart.over), { width, height } = sheetSize(chart);
  drawSheet(chart, pen);
  return new Blob([pen.text(width, height)], { type: "image/svg+xml" });
}

function namesOn(chart) { return chart.series.length ? chart.shown() : []; }

function sheetSize(chart) {
  const { width, height } = chart.frame.size;
  return { width, height: height + LINE * (2 + namesOn(chart).length) };
}

function drawSheet(chart, pen) {
  const ink = inks(), { width, height } = sheetSize(chart), { size } = chart.frame;
  pen.fillStyle = ink.paper;
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = ink.loud;
  pen.font = `bold ${ink.font}`;
  pen.fillText(chart.canvas.closest("figure").querySelector("h2, h3").textContent, 8, 16);
  pen.save();
  pen.translate(0, LINE);
  chart.draw({ pen, size });
  pen.restore();
  pen.font = ink.font;
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  namesOn(chart).forEach((own, i) => {
    const y = size.height + LINE * (i + 2);
    pen.strokeStyle = tint(own.tint);
    pen.lineWidth = 2;
    pen.setLineDash(dashOf(own.tint, own.style));
    line(pen, FRAME.left, y - 4, FRAME.left + 28, y - 4);
    pen.fillStyle = ink.loud;
    pen.fillText(own.name, FRAME.left + 36, y);
  });
}

// One line a point of what is shown; text that a spreadsheet would run is quoted for it.
function csv(chart) {
  const name = chart.axis().name, lines = [["curve", name, "value", "low", "high"]];
  for (const { own, x, first, last } of inSight(chart).shown)
    for (let i = first; i < last; i++) lines.push([own.name, x[i], own.y[i], own.low ? own.low[i] : "", own.high ? own.high[i] : ""]);
  return new Blob([lines.map((cells) => cells.map(csvCell).join(",")).join("\n"), "\n"], { type: "text/csv" });
}

function csvCell(cell) {
  if (typeof cell === "number") return Number.isFinite(cell) ? String(cell) : "";
  return `"${cell.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
}

// `#loss&x=tokens&log=1&smooth=0.02&off=d16&zoom=100,500`: the plot, and how the page stood around it.
function writeAddress(chart) {
  const words = new URLSearchParams(), zoom = view.zoom.get(linkOf(chart));
  if (view.axis) words.set("x", view.axis);
  if (view.logX) words.set("log", "1");
  words.set("smooth", view.smoothing);
  for (const run of view.hiddenRuns) words.append("off", run);
  if (zoom) words.set("zoom", zoom.join());
  if (chart.yZoom) words.set("y", chart.yZoom.join());
  history.replaceState(null, "", `#${encodeURIComponent(chart.panel.name)}&${words}`);
  navigator.clipboard?.writeText(location.href).catch(() => {}); // a browser may refuse; the address bar has it
}

function readAddress() {
  const [name, ...rest] = location.hash.slice(1).split("&"), words = new URLSearchParams(rest.join("&"));
  const chart = charts.find((other) => other.panel.name === decodeURIComponent(name));
  if (!chart) return;
  const range = (key) => { const two = (words.get(key) || "").split(",").map(Number); return two.length === 2 && two.every(Number.isFinite) && two[0] < two[1] ? two : null; };
  choose("axis", words.get("x"), "change");
  choose("smoothing", STEPS.indexOf(Number(words.get("smooth") ?? view.smoothing)), "input");
  if (words.get("log") && !view.logX) pressed("log x");
  const off = new Set(words.getAll("off"));
  if (rest.length) for (const run of view.runs) if (off.has(run) !== view.hiddenRuns.has(run)) pressed(run);
  if (range("zoom")) view.zoom.set(linkOf(chart), range("zoom"));
  chart.yZoom = range("y");
  chart.canvas.closest("figure").scrollIntoView();
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

function showKeys() {
  const list = element("dl"), dialog = element("dialog", "keys"), close = plainChip("close", () => { dialog.close(); });
  for (const [key, words] of KEYS) list.append(element("dt", "", key), element("dd", "", words));
  dialog.append(element("h2", "", "Mouse, fingers and keys"), list, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
