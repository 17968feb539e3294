// The rows of a table as lines over parallel axes, one for each column that differs; a range of an axis, and what is
// typed, choose rows of the table.

const SHADES = 16, MOST_AXES = 12, FEW_PLACES = 6, MOST_NAMES = 12; // names of a column that is no number
const AXIS = { top: 44, bottom: 30, height: 330, least: 104 }; // CSS pixels
const SVG = "http://www.w3.org/2000/svg";

function makeExplorable(holder) {
  const table = holder.querySelector("table"), rows = [...table.tBodies[0].rows];
  const axes = axesOfTable(table, rows, holder.dataset.target), count = element("output", "count");
  const chosen = { rows, axes, fits: () => true, lines: [], shades: [] };
  const show = () => {
    const kept = rows.map((row, i) => chosen.fits(row.textContent) && axes.every((axis) => isWithin(axis, i)));
    rows.forEach((row, i) => { row.hidden = !kept[i]; });
    colorLines(chosen, kept);
    count.textContent = `${grouped(String(kept.filter(Boolean).length))} of ${grouped(String(rows.length))} runs`;
  };
  const bar = element("div", "group filter"), plot = element("div", "scroll parallel");
  bar.append(search("find a run", (fits) => { chosen.fits = fits; show(); }), plainChip("all runs", () => {
    for (const axis of axes) Object.assign(axis, { low: 0, high: axis.places.length - 1 });
    bar.querySelector("input").value = "";
    chosen.fits = () => true;
    draw();
  }), count);
  const draw = () => { drawParallel(plot, chosen, show); show(); };
  if (axes.length > 1) bar.append(colorKey(axes.at(-1)));
  holder.prepend(...(axes.length > 1 ? [bar, plot] : [bar]));
  draw();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
}

function colorKey(axis) {
  const key = element("span", "key"), ramp = element("i", "ramp");
  key.append(element("span", "", `${axis.title}:`), element("span", "", axis.said[0]), ramp, element("span", "", axis.said.at(-1)));
  return key;
}

// Of each column that differs: `places` are its values from low to high, `at` the place of each row, -1 if unknown.
function axesOfTable(table, rows, target) {
  const axes = [...table.tHead.rows[0].cells].map((head, column) => {
    const cells = rows.map((row) => comparable(row.cells[column].textContent.trim()));
    const numbers = UNITS.map((units) => cells.map((cell) => valueOf(cell, units))).find((all) => all.every((v) => v !== undefined));
    const values = numbers || cells.map((cell) => (cell === "–" ? null : cell));
    const places = [...new Set(values.filter((value) => value !== null))];
    places.sort(numbers ? (a, b) => a - b : (a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const said = new Map(values.map((value, i) => [value, cells[i]])), at = new Map(places.map((value, i) => [value, i]));
    return { title: head.textContent, places, said: places.map((v) => said.get(v)), numeric: Boolean(numbers), low: 0, high: places.length - 1, at: values.map((v) => at.get(v) ?? -1), column };
  }).filter((axis) => axis.column && axis.places.length > 1 && (axis.numeric || axis.places.length <= MOST_NAMES));
  const last = axes.filter((axis) => axis.title === target);
  const others = axes.filter((axis) => axis.title !== target).slice(0, MOST_AXES - last.length);
  for (const axis of axes) axis.share = sharesOf(axis);
  return [...others, ...last];
}

// How high each place lies, from 0 to 1: by its logarithm where values span a factor of 20.
function sharesOf({ places, numeric }) {
  if (!numeric) return places.map((_, i) => i / (places.length - 1));
  const f = places[0] > 0 && places.at(-1) / places[0] > 20 ? Math.log : (v) => v, low = f(places[0]), high = f(places.at(-1));
  return places.map((value) => (f(value) - low) / (high - low));
}

function isWithin(axis, row) {
  const whole = axis.low === 0 && axis.high === axis.places.length - 1;
  return whole || (axis.at[row] >= axis.low && axis.at[row] <= axis.high);
}

function drawn(tag, facts, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawParallel(plot, chosen, show) {
  const { axes, rows } = chosen;
  if (axes.length < 2) return;
  const width = Math.max(plot.clientWidth, axes.length * AXIS.least), gap = width / axes.length, floor = AXIS.height - AXIS.bottom;
  const x = (i) => gap * (i + 0.5), y = (axis, place) => floor - axis.share[place] * (floor - AXIS.top);
  const svg = drawn("svg", { width, height: AXIS.height, viewBox: `0 0 ${width} ${AXIS.height}`, role: "group", "aria-label": "runs as lines over their settings and figures" });
  const target = axes.at(-1), lines = drawn("g", { class: "lines" }), near = drawn("path", { class: "near" });
  const colors = Array.from({ length: SHADES + 1 }, (_, i) => `color-mix(in oklab, var(--high) ${Math.round((100 * i) / SHADES)}%, var(--accent))`);
  chosen.shades = ["var(--grid)", "var(--quiet)", ...colors].map((stroke, i) => {
    const path = drawn("path", { class: i ? "" : "out" });
    path.style.stroke = stroke; // the page allows no attribute of style
    return path;
  });
  chosen.lines = rows.map((row, r) => {
    const points = axes.map((axis, i) => (axis.at[r] < 0 ? null : `${x(i).toFixed(1)},${y(axis, axis.at[r]).toFixed(1)}`));
    const d = points.map((point, i) => point && `${points[i - 1] ? "L" : "M"}${point}`).filter(Boolean).join("");
    const shade = target.at[r] < 0 ? 1 : 2 + Math.round((SHADES * target.at[r]) / (target.places.length - 1));
    row.onpointerenter = () => { near.setAttribute("d", d); near.style.stroke = chosen.shades[shade].style.stroke; };
    row.onpointerleave = () => near.setAttribute("d", "");
    return { d, shade };
  });
  lines.append(chosen.shades[0], ...chosen.shades.slice(1).reverse(), near); // the lowest, as the best loss, on top
  svg.append(lines, ...axes.map((axis, i) => drawnAxis(axis, x(i), gap, (place) => y(axis, place), show)));
  plot.replaceChildren(svg);
}

// One path for each shade, and one for the runs that are not chosen: thousands of elements would be slow.
function colorLines({ lines, shades }, kept) {
  const of = shades.map(() => []);
  lines.forEach(({ d, shade }, i) => of[kept[i] ? shade : 0].push(d));
  shades.forEach((path, i) => path.setAttribute("d", of[i].join("")));
}

// A line with its name, its ends, and two handles: dragged, or moved by arrow keys from value to value.
function drawnAxis(axis, x, gap, y, show) {
  const group = drawn("g", { class: "axis" }), letters = Math.floor(gap / 7), last = axis.places.length - 1;
  const cut = (text) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
  const title = drawn("text", { x, y: 12, class: "name" }, cut(axis.title));
  title.append(drawn("title", {}, axis.title));
  const brush = drawn("rect", { x: x - 7, width: 14, class: "brush" });
  const isFew = axis.places.length <= FEW_PLACES || !axis.numeric, labels = isFew ? axis.places.map((_, i) => i) : [0, last];
  group.append(title, drawn("line", { x1: x, x2: x, y1: y(0), y2: y(last) }), brush);
  for (const i of labels) group.append(drawn("text", isFew ? { x: x + 13, y: y(i) + 4, class: "place" } : { x, y: i ? y(i) - 12 : y(i) + 21 }, cut(axis.said[i])));
  const handles = ["low", "high"].map((side) => handleOf(axis, side, x, y, () => { place(); show(); }));
  const place = () => {
    brush.setAttribute("y", y(axis.high));
    brush.setAttribute("height", Math.max(y(axis.low) - y(axis.high), 2));
    brush.classList.toggle("set", axis.low > 0 || axis.high < last);
    for (const handle of handles) handle.move();
  };
  group.append(...handles.map((handle) => handle.knob));
  place();
  return group;
}

function handleOf(axis, side, x, y, changed) {
  const last = axis.places.length - 1, knob = drawn("rect", { x: x - 10, width: 20, height: 8, rx: 4, class: "handle", tabindex: 0, role: "slider", "aria-orientation": "vertical", "aria-label": `${axis.title}: ${side === "low" ? "lowest" : "highest"} that is shown`, "aria-valuemin": 0, "aria-valuemax": last });
  const set = (to) => {
    axis[side] = side === "low" ? Math.max(0, Math.min(to, axis.high)) : Math.min(last, Math.max(to, axis.low));
    changed();
  };
  const move = () => {
    knob.setAttribute("y", y(axis[side]) - (side === "low" ? 0 : 8));
    knob.setAttribute("aria-valuenow", axis[side]);
    knob.setAttribute("aria-valuetext", axis.said[axis[side]]);
  };
  knob.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, Home: -last, End: last }[event.key];
    if (!steps) return;
    event.preventDefault();
    set(axis[side] + steps);
  });
  knob.addEventListener("pointerdown", (event) => { knob.setPointerCapture(event.pointerId); event.preventDefault(); knob.focus(); });
  knob.addEventListener("pointermove", (event) => {
    if (!knob.hasPointerCapture(event.pointerId)) return;
    const at = event.clientY - knob.ownerSVGElement.getBoundingClientRect().top;
    set(axis.places.map((_, i) => Math.abs(y(i) - at)).reduce((best, far, i, all) => (far < all[best] ? i : best), 0));
  });
  return { knob, move };
}
