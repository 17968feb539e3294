// The pointer over a plot: it tells what is there, in all linked plots at once; dragging zooms, a double click undoes it.

function listen(chart, plot, over) {
  let from = null;
  const inside = (event) => {
    const box = over.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  over.addEventListener("pointermove", (event) => {
    const at = inside(event);
    if (from !== null && event.pointerType !== "touch") return select(chart, from, at.x);
    pointAt(chart, at, event);
  });
  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !chart.frame) return;
    if (event.pointerType === "touch") return pointAt(chart, inside(event), event);
    from = inside(event).x;
    over.setPointerCapture(event.pointerId);
  });
  over.addEventListener("pointerup", (event) => {
    if (from !== null && Math.abs(inside(event).x - from) > 5) zoomTo(chart, from, inside(event).x);
    from = null;
    clearOver(over);
  });
  over.addEventListener("pointercancel", () => { from = null; pointNowhere(); });
  over.addEventListener("pointerleave", () => { if (from === null) pointNowhere(); });
  over.addEventListener("dblclick", () => { view.zoom.delete(linkOf(chart)); redraw(); });
  over.addEventListener("keydown", (event) => walk(chart, over, event));
  over.addEventListener("blur", pointNowhere);
}

function pointAt(chart, at, event) {
  if (!chart.frame || at.x < FRAME.left - 4 || at.x > chart.frame.size.width - FRAME.right + 4) return pointNowhere();
  const told = chart.tell(chart.frame.xs.value(at.x), at.x, at.y);
  if (!told) return pointNowhere();
  for (const other of charts) crosshair(other, linkOf(other) === linkOf(chart) ? told.x : null, other === chart ? told : null);
  showHover(told, chart, event);
}

function pointNowhere() {
  document.getElementById("hover").hidden = true;
  for (const chart of charts) clearOver(chart.over);
}

function crosshair(chart, value, told) {
  clearOver(chart.over);
  if (value === null || !chart.frame) return;
  const { pen, size } = fresh(chart.over), x = chart.frame.xs.at(value);
  if (x < FRAME.left - 1 || x > size.width - FRAME.right + 1) return;
  pen.strokeStyle = inks().quiet;
  pen.lineWidth = 1;
  line(pen, x, FRAME.top, x, size.height - FRAME.bottom);
  for (const own of told ? told.told : []) {
    if (own.y === undefined || !Number.isFinite(own.y)) continue;
    pen.fillStyle = own.color;
    dot(pen, chart.frame.xs.at(own.x), own.y);
  }
}

function clearOver(over) {
  over.getContext("2d").clearRect(0, 0, over.width, over.height);
}

function showHover(told, chart, event) {
  const hover = document.getElementById("hover"), shown = told.told.slice(0, 16);
  const rows = shown.map((own) => {
    const row = element("div", "told"), name = swatch(own.name, own.color);
    row.append(name, element("b", "", own.text));
    return row;
  });
  if (told.told.length > shown.length) rows.push(element("div", "", `and ${told.told.length - shown.length} more`));
  const happened = told.happened.map((event) => { const row = element("div", "happened"); row.append(swatch(event.text, event.color)); return row; });
  hover.replaceChildren(element("div", "where", told.where), ...rows, ...happened);
  hover.hidden = false;
  const box = chart.over.getBoundingClientRect();
  const x = event.clientX ?? box.left + chart.frame.xs.at(told.x), y = event.clientY ?? box.top + 30;
  const width = hover.offsetWidth, height = hover.offsetHeight;
  const beside = x + 16 + width < innerWidth ? x + 16 : Math.max(4, x - 16 - width);
  hover.style.left = `${Math.min(beside, Math.max(4, innerWidth - width - 4))}px`;
  hover.style.top = `${Math.max(4, Math.min(y + 16, innerHeight - height - 8))}px`;
}

function select(chart, from, to) {
  pointNowhere();
  const { pen, size } = fresh(chart.over);
  pen.fillStyle = inks().select;
  pen.fillRect(Math.min(from, to), FRAME.top, Math.abs(to - from), size.height - FRAME.top - FRAME.bottom);
}

function zoomTo(chart, from, to) {
  const edge = chart.frame.size.width - FRAME.right, inside = (x) => Math.min(Math.max(x, FRAME.left), edge);
  const [low, high] = [from, to].map((x) => chart.frame.xs.value(inside(x))).sort((a, b) => a - b);
  if (high > low) view.zoom.set(linkOf(chart), [low, high]);
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
    view.zoom.delete(linkOf(chart));
    redraw();
  } else return;
  event.preventDefault();
}
