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
    pinTool(chart),
    action("larger", "larger or smaller", () => { figure.classList.toggle("large"); redraw(); }),
    action("link", "the page's address with this view of the plot", () => writeAddress(chart)),
    action("table", "the figures behind the plot", () => showFigures(chart)),
    takings(chart),
  );
}

// At the top of the page, in the order of pinning; and back where it stood.
function pinTool(chart) {
  const figure = chart.canvas.closest("figure"), place = document.createComment("");
  const chip = pressable("pin", () => {
    if (place.isConnected) place.replaceWith(figure);
    else { figure.before(place); pinnedPlace().append(figure); }
    redraw();
    return place.isConnected;
  });
  chip.title = "at the top of the page, or back";
  chart.pin = () => chip.click();
  return chip;
}

function pinned() { return [...document.querySelectorAll("#pinned > figure:not(.against)")]; }

function pinnedPlace() {
  const place = document.getElementById("pinned") || Object.assign(element("section", "wide"), { id: "pinned" });
  if (!place.isConnected) document.querySelector("main").prepend(place);
  return place;
}

function heightTool(chart) {
  const chip = action("y range", "set by hand from where to where plots reach", () => askHeight(chart));
  chip.classList.add("height");
  return chip;
}

// Asks from where to where the plot reaches, and which others reach as far: `2.5, 3.5, validation`. Nothing typed leaves
// it to the curves.
function askHeight(chart) {
  const { low, high } = chart.frame.ys, value = [low, high].map((end) => Number(end.toPrecision(4))).join(", ");
  const field = Object.assign(element("input", "search"), { value, ariaLabel: "from, to, other plots" });
  field.addEventListener("change", () => {
    const [from, to, ...titles] = field.value.split(","), range = rangeOf(`${from},${to}`), fits = titles.map((title) => fitting(title.trim()));
    const meant = charts.filter((other) => other === chart || (other.panel.kind === "curves" && fits.some((fit) => fit(titleOf(other)))));
    if (range || !field.value.trim()) for (const other of meant) other.yZoom = range;
    redraw();
  });
  showList("Range of y", [["from, to, other plots", field], ["2.5, 3.5", "this plot"], ["2.5, 3.5, validation", "and plots with that in their title"], ["nothing", "as the curves need"]]);
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

function showKeys() {
  showList("Mouse, fingers and keys", KEYS);
}

// A color of one's own for each run.
function showColors(runs) {
  showList("Colors of runs", runs.map((run) => {
    const choice = Object.assign(element("input"), { type: "color", value: tint(view.tintOf(run)), ariaLabel: run });
    choice.addEventListener("input", () => { paintRun(run, choice.value); redraw(); });
    return [run, choice];
  }));
}

function paintRun(run, color) {
  view.colors.set(run, color);
  view.ownTints.set(view.tintOf(run), color);
}

function showList(title, pairs) {
  const list = element("dl"), dialog = element("dialog", "keys"), close = plainChip("close", () => { dialog.close(); });
  for (const pair of pairs) {
    const [name, words] = [element("dt"), element("dd")];
    name.append(pair[0]);
    words.append(pair[1]);
    list.append(name, words);
  }
  dialog.append(element("h2", "", title), list, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
