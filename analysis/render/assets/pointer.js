// The pointer over a plot: values are shown there, in all linked plots at once. Dragging zooms into a span, or into a
// box where it goes up or down as well; with Shift it moves the plot; Ctrl and the wheel, or two fingers, zoom.

const BOX = 24; // pixels up or down from which a span becomes a box

function listen(chart, plot, over) {
  const fingers = new Map();
  let from = null;
  const inside = (event) => {
    const box = over.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const begin = (at, shift) => { from = { ...at, moves: shift, frame: chart.frame, other: [...fingers.values()][1]?.x }; };
  over.addEventListener("pointermove", (event) => {
    const at = inside(event);
    if (event.pointerType === "touch") {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, at);
      if (fingers.size === 2) return pinch(chart, from, [...fingers.values()].map((finger) => finger.x));
      return pointAt(chart, at, event);
    }
    if (!from) return pointAt(chart, at, event);
    if (from.moves) return move(chart, from.frame, 1, at.x - from.x, chart.yZoom ? at.y - from.y : 0);
    select(chart, from, at);
  });
  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !chart.frame) return;
    if (event.pointerType === "touch") {
      fingers.set(event.pointerId, inside(event));
      if (fingers.size === 2) begin([...fingers.values()][0], false);
      return pointAt(chart, inside(event), event);
    }
    begin(inside(event), event.shiftKey);
    over.setPointerCapture(event.pointerId);
  });
  const end = (event) => { fingers.delete(event.pointerId); from = null; clearOver(over); };
  over.addEventListener("pointerup", (event) => {
    const at = inside(event);
    if (from && !from.moves && event.pointerType !== "touch" && Math.abs(at.x - from.x) > 5) zoomTo(chart, from, at);
    end(event);
  });
  over.addEventListener("pointercancel", (event) => { end(event); pointNowhere(); });
  over.addEventListener("pointerleave", () => { if (!from) pointNowhere(); });
  over.addEventListener("dblclick", () => showWhole(chart));
  over.addEventListener("wheel", (event) => {
    if (!chart.frame || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const factor = 1.002 ** -event.deltaY, { x } = inside(event);
    move(chart, chart.frame, factor, x * (1 - factor), 0);
  }, { passive: false });
  over.addEventListener("keydown", (event) => walk(chart, over, event));
  over.addEventListener("blur", pointNowhere);
}

// What stood at pixel p of the frame comes to stand at factor * p + right.
function move(chart, { xs, ys, size }, factor, right, down) {
  const before = (pixel) => xs.value((pixel - right) / factor);
  view.zoom.set(linkOf(chart), [before(FRAME.left), before(size.width - FRAME.right)]);
  if (down) chart.yZoom = [ys.value(size.height - FRAME.bottom - down), ys.value(FRAME.top - down)];
  redraw();
}

function pinch(chart, from, [a, b]) {
  if (!from || Math.abs(from.other - from.x) < 10 || Math.abs(b - a) < 10) return;
  const factor = (b - a) / (from.other - from.x);
  if (factor > 0) move(chart, from.frame, factor, a - factor * from.x, 0);
}

function showWhole(chart) {
  view.zoom.delete(linkOf(chart));
  view.wholeRuns = true;
  chart.yZoom = null;
  redraw();
}

function resetZoom() {
  view.zoom.clear();
  view.wholeRuns = true;
  for (const chart of charts) chart.yZoom = null;
  redraw();
}

function pointAt(chart, at, event) {
  if (!chart.frame || at.x < FRAME.left - 4 || at.x > chart.frame.size.width - FRAME.right + 4) return pointNowhere();
  const hovered = chart.hoverAt(chart.frame.xs.value(at.x), at.x, at.y);
  if (!hovered) return pointNowhere();
  for (const other of charts) crosshair(other, linkOf(other) === linkOf(chart) ? hovered.x : null, other === chart ? hovered : null);
  showHover(hovered, chart, event);
}

function pointNowhere() {
  document.getElementById("hover").hidden = true;
  for (const chart of charts) clearOver(chart.over);
}

function crosshair(chart, value, hovered) {
  clearOver(chart.over);
  if (value === null || !chart.frame) return;
  const { pen, size } = fresh(chart.over), x = chart.frame.xs.at(value);
  if (x < FRAME.left - 1 || x > size.width - FRAME.right + 1) return;
  pen.strokeStyle = inks().quiet;
  pen.lineWidth = 1;
  line(pen, x, FRAME.top, x, size.height - FRAME.bottom);
  for (const own of hovered ? hovered.values : []) {
    if (own.y === undefined || !Number.isFinite(own.y)) continue;
    pen.fillStyle = own.color;
    dot(pen, chart.frame.xs.at(own.x), own.y);
  }
}

function clearOver(over) {
  over.getContext("2d").clearRect(0, 0, over.width, over.height);
}

function showHover(hovered, chart, event) {
  const hover = document.getElementById("hover"), shown = hovered.values.slice(0, 16);
  const rows = shown.map((own) => {
    const row = element("div", "value"), name = swatch(own.name, own.color);
    row.append(name, element("b", "", own.text));
    return row;
  });
  if (hovered.values.length > shown.length) rows.push(element("div", "", `and ${hovered.values.length - shown.length} more`));
  const events = hovered.events.map((event) => { const row = element("div", "event"); row.append(swatch(event.text, event.color)); return row; });
  hover.replaceChildren(element("div", "where", hovered.where), ...rows, ...events);
  hover.hidden = false;
  const box = chart.over.getBoundingClientRect();
  const x = event.clientX ?? box.left + chart.frame.xs.at(hovered.x), y = event.clientY ?? box.top + 30;
  const width = hover.offsetWidth, height = hover.offsetHeight;
  const beside = x + 16 + width < innerWidth ? x + 16 : Math.max(4, x - 16 - width);
  hover.style.left = `${Math.min(beside, Math.max(4, innerWidth - width - 4))}px`;
  hover.style.top = `${Math.max(4, Math.min(y + 16, innerHeight - height - 8))}px`;
}

function select(chart, from, to) {
  pointNowhere();
  const { pen, size } = fresh(chart.over), box = isBox(chart, from, to);
  const top = box ? Math.min(from.y, to.y) : FRAME.top, bottom = box ? Math.max(from.y, to.y) : size.height - FRAME.bottom;
  pen.fillStyle = inks().select;
  pen.fillRect(Math.min(from.x, to.x), top, Math.abs(to.x - from.x), bottom - top);
}

function isBox(chart, from, to) { return chart.panel.kind === "curves" && Math.abs(to.y - from.y) > BOX; }

function zoomTo(chart, from, to) {
  const { xs, ys, size } = chart.frame, edge = size.width - FRAME.right, floor = size.height - FRAME.bottom;
  const within = (value, low, high) => Math.min(Math.max(value, low), high), ascending = (a, b) => a - b;
  const [low, high] = [from.x, to.x].map((x) => xs.value(within(x, FRAME.left, edge))).sort(ascending);
  if (high > low) view.zoom.set(linkOf(chart), [low, high]);
  if (isBox(chart, from, to)) chart.yZoom = [from.y, to.y].map((y) => ys.value(within(y, FRAME.top, floor))).sort(ascending);
  redraw();
}

// Arrows walk along the curve, plus and minus zoom, Escape shows the whole.
function walk(chart, over, event) {
  if (!chart.frame) return;
  const { xs, size } = chart.frame, middle = chart.at ?? size.width / 2;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const step = (event.shiftKey ? 40 : 8) * (event.key === "ArrowLeft" ? -1 : 1);
    chart.at = Math.min(Math.max(middle + step, FRAME.left), size.width - FRAME.right);
    pointAt(chart, { x: chart.at, y: size.height / 2 }, {});
  } else if (event.key === "+" || event.key === "-") {
    const half = ((size.width - FRAME.left - FRAME.right) / 2) * (event.key === "+" ? 0.5 : 2);
    const whole = wholeRange(chart), near = (x) => Math.min(Math.max(xs.value(x), whole[0]), whole[1]);
    view.zoom.set(linkOf(chart), [near(middle - half), near(middle + half)]);
    redraw();
  } else if (event.key === "Escape") {
    showWhole(chart);
  } else return;
  event.preventDefault();
}
