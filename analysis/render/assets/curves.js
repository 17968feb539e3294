// Curves: noisy ones faint under their running mean, extremes as a band, what happened behind them.

const BAND = 0.3; // how much of a curve's color its band has
const MOST_NAMED = 24; // curves whose names may stand at their ends
const AWAY = 0.12; // of the color, while another run is pointed at

function curvesChart(panel, bytes) {
  const arrays = new Map();
  const read = (spot) => {
    const key = `${spot.as}:${spot.at}:${spot.known}`;
    if (!arrays.has(key)) arrays.set(key, numbersAt(bytes, spot));
    return arrays.get(key);
  };
  const series = panel.series.map((own, index) => {
    const unpacked = { ...own, index, x: {}, hidden: Boolean(own.hidden), folded: Boolean(own.hidden) };
    for (const [name, spot] of Object.entries(own.x)) lazily(unpacked.x, name, () => read(spot));
    for (const name of ["y", "low", "high"]) if (own[name]) lazily(unpacked, name, () => read(own[name]));
    return unpacked;
  });
  const chart = { panel, series, log: panel.log, whole: false, means: new Map() };
  chart.axis = () => panel.axes.find((axis) => axis.name === view.axis) || panel.axes[0];
  chart.shown = () => chart.series.filter((own) => !own.hidden && !view.hiddenRuns.has(own.run) && own.x[chart.axis().name]);
  chart.domain = () => {
    const all = chart.series.filter((own) => !view.hiddenRuns.has(own.run) && !(own.hidden && own.leftOut)).map((own) => own.x[chart.axis().name]);
    return reach(all.filter((x) => x && x.length).flatMap((x) => [x[0], x[x.length - 1]]));
  };
  chart.draw = (canvas) => drawCurves(chart, canvas);
  chart.hoverAt = (value, pixel) => curvesAt(chart, value, pixel);
  chart.says = () => `${panel.title} by ${chart.axis().title}: ${summary(chart)}`;
  return chart;
}

function reach(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return low <= high ? [low, high] : null;
}

// Of the values from first to last; extremes count where there are any.
function extent(own, first, last, log) {
  let low = Infinity, high = -Infinity;
  const lows = own.low || own.y, highs = own.high || own.y;
  for (let i = first; i < last; i++) {
    if (lows[i] < low && !(log && lows[i] <= 0)) low = lows[i];
    if (highs[i] > high) high = highs[i];
  }
  return [low, high];
}

// Loss, and evaluations, begin far from where they settle.
function settles(chart) { return chart.panel.noisy || chart.series.some((own) => own.style === "dots"); }

// To where nearly all values are, and half as far again: the first steps, the first evaluation and spikes run out of
// the plot, the last value of a curve never does.
function withoutExtremes(range, shown, share) {
  const later = ({ own, first, last }) => own.y.subarray(first + (own.style === "dots" && last - first >= look.extremes.least), last);
  const values = shown.flatMap((part) => Array.from(later(part))).filter(Number.isFinite).sort((a, b) => a - b);
  const few = shown.some(({ own }) => own.low) ? 0 : 2; // the first steps of a short run; of means it is known how far they reach
  const out = Math.max(Math.floor(share * values.length), Math.min(few, Math.floor(values.length / 10)));
  const low = values[out], high = values[values.length - 1 - out];
  const more = Math.max(0.5 * (high - low), 0.02 * Math.abs(high)), ends = shown.map(({ own }) => lastOf(own.y)).filter(Number.isFinite);
  return [Math.max(range[0], Math.min(low - more, ...ends)), Math.min(range[1], Math.max(high + more, ...ends))];
}

function lastOf(values) {
  for (let i = values.length - 1; i >= 0; i--) if (Number.isFinite(values[i])) return values[i];
  return NaN;
}

// For people who hear the page: each curve's last value and its extremes.
function summary(chart) {
  const shown = chart.shown(), unit = chart.panel.y;
  const ends = shown.slice(0, 8).map((own) => {
    const [low, high] = extent(own, 0, own.y.length, false).map((value) => exactly(Number(value.toPrecision(6))));
    return `${own.name} ends at ${withUnit(lastOf(own.y), unit)}, between ${low} and ${high}`;
  });
  return [...ends, shown.length > 8 ? `and ${shown.length - 8} more curves` : ""].filter(Boolean).join("; ") || "no curve";
}

// Each value as the mean of those around it, as far as a share of the whole axis reaches.
function runningMean(chart, own, width) {
  const axis = chart.axis().name, key = `${own.index} ${axis} ${width}`;
  if (chart.means.has(key)) return chart.means.get(key);
  const x = own.x[axis], y = own.y, means = new Float64Array(y.length);
  let first = 0, last = 0, sum = 0, count = 0;
  for (let i = 0; i < y.length; i++) {
    const half = Math.min(width / 2, x[i] - x[0], x[x.length - 1] - x[i]); // as far on either side, or the ends lean
    for (; last < y.length && x[last] <= x[i] + half; last++) if (y[last] === y[last]) { sum += y[last]; count++; }
    for (; first < last && x[first] < x[i] - half; first++) if (y[first] === y[first]) { sum -= y[first]; count--; }
    means[i] = count && y[i] === y[i] && half >= width / 8 ? sum / count : NaN;
  }
  chart.means.set(key, means);
  return means;
}

function smoothed(chart, own) {
  if (!chart.panel.noisy || !view.smoothing || ["dots", "held", "points"].includes(own.style) || own.y.length < 3) return null;
  const whole = mostRuns(chart)?.range || chart.domain();
  return whole && runningMean(chart, own, view.smoothing * (whole[1] - whole[0]));
}

function drawCurves(chart, canvas) {
  const { pen, size } = fresh(canvas), ink = inks(), axis = chart.axis();
  const { range, shown, log } = inSight(chart);
  const [low, high] = heightOf(chart, shown) || [];
  chart.frame = null;
  if (!range || low === undefined) return nothingHere(pen, size, ink);
  const floor = size.height - FRAME.bottom;
  const lone = !view.zoom.has(linkOf(chart)) && shown.every(({ own }) => own.y.length < 2);
  const xs = scale(...(lone ? padded(...range, log) : range), FRAME.left, size.width - FRAME.right, log);
  const ys = scale(low, high, floor, FRAME.top, chart.log);
  chart.frame = { xs, ys, size };
  drawAxes(pen, size, xs, ys, { ...axis, title: titleOfAxis(chart) }, chart.panel.y, ink);
  pen.save();
  pen.beginPath();
  pen.rect(FRAME.left, FRAME.top, size.width - FRAME.left - FRAME.right, floor - FRAME.top);
  pen.clip();
  drawMarks(pen, chart, xs, floor);
  const faint = Math.max(BAND / shown.length ** 0.75, 0.1); // many bands together must not hide each other
  const middles = shown.map((part) => drawBand(pen, chart, part, xs, ys, faint));
  shown.forEach((part, i) => drawLine(pen, chart, part, xs, ys, middles[i]));
  for (const level of chart.panel.levels) drawLevel(pen, level, ys, size, ink); // the legend says what it is
  nameEnds(pen, chart, shown, xs, ys, ink);
  pen.restore();
}

// With what of it is not shown.
function titleOfAxis(chart) {
  const axis = chart.axis(), most = view.zoom.has(linkOf(chart)) ? null : mostRuns(chart);
  const longer = most ? most.longer.filter((run) => chart.series.some((own) => own.run === run)) : [];
  if (!longer.length) return axis.title;
  const { end } = most, name = view.nameOf(longer[0]), who = longer.length > 1 ? `${longer.length} runs go` : `${name.length > look.long.letters ? "one run" : name} goes`;
  return `${axis.title}; ${who} on to ${axis.unit === "s" ? short(end, 0, "s") : withUnit(end, axis)} (double click shows all)`;
}

// What of the axis is shown, and of each curve; a logarithmic axis begins at the first value above zero.
function inSight(chart) {
  const name = chart.axis().name, curves = chart.shown();
  const least = Math.min(...curves.map((own) => own.x[name][firstFrom(own.x[name], Number.MIN_VALUE)] ?? Infinity));
  const log = (chart.axis().log || (view.logX && chart.axis().unit !== "clock")) && Number.isFinite(least);
  const whole = view.zoom.get(linkOf(chart)) || firstRange(chart);
  const range = whole && log ? [Math.max(whole[0], least), Math.max(whole[1], least)] : whole;
  return { range, log, shown: range ? curves.map((own) => within(own, name, range, log)) : [] };
}

function heightOf(chart, shown) {
  if (chart.yZoom && !(chart.log && chart.yZoom[0] <= 0)) return chart.yZoom;
  let range = reach(shown.flatMap(({ own, first, last }) => extent(own, first, last, chart.log)).filter(Number.isFinite));
  if (!range) return null;
  const { steady } = chart.panel, settled = settles(chart) && !chart.log && !view.zoom.has(linkOf(chart));
  if (!chart.whole && (steady || settled)) range = withoutExtremes(range, shown, steady ? look.extremes.steady : look.extremes.noisy);
  const near = chart.panel.levels.map((level) => level.value).filter((value) => value <= range[1] * look.near && (!chart.log || value > 0));
  return padded(...reach([...range, ...near]), chart.log);
}

// The points to draw: those in sight, and one more on either side.
function within(own, axis, range, log) {
  const x = own.x[axis], least = log ? firstFrom(x, Number.MIN_VALUE) : 0;
  return { own, x, first: Math.max(least, firstFrom(x, range[0]) - 1), last: Math.min(x.length, firstFrom(x, range[1]) + 2) };
}

// What lies between the extremes, where there are any or more points than pixels; answers where the means are.
function drawBand(pen, chart, { own, x, first, last }, xs, ys, alpha) {
  if (own.style === "dots" || own.style === "points" || !(own.low || isCrowded(first, last, xs))) return null;
  pen.fillStyle = tint(own.tint);
  pen.globalAlpha = alpha * shareOf(own);
  const middles = band(pen, own, x, first, last, xs, ys);
  pen.globalAlpha = 1;
  return middles;
}

function drawLine(pen, chart, { own, x, first, last }, xs, ys, middles) {
  const mean = smoothed(chart, own), crowded = isCrowded(first, last, xs);
  pen.strokeStyle = pen.fillStyle = tint(own.tint);
  pen.lineJoin = "round";
  pen.setLineDash(dashOf(own.tint, own.style));
  pen.globalAlpha = (mean ? BAND : own.style === "points" ? 0.5 : 1) * shareOf(own);
  if (own.style === "points") {
    for (let i = first; i < last; i++) dot(pen, xs.at(x[i]), ys.at(own.y[i]));
  } else if (own.style === "dots") {
    trace(pen, x, own.y, first, last, xs, ys, 1.4);
    if (last - first < 400) for (let i = first; i < last; i++) dot(pen, xs.at(x[i]), ys.at(own.y[i]));
  } else if (!crowded && !(mean && own.low)) {
    trace(pen, x, own.y, first, last, xs, ys, mean ? 1 : 1.6, own.style === "held");
  }
  pen.globalAlpha = shareOf(own);
  if (mean) trace(pen, x, mean, first, last, xs, ys, 1.8);
  else if (crowded && middles) path(pen, middles);
  pen.globalAlpha = 1;
  pen.setLineDash([]);
}

// The name of a run at the end of its line where colors repeat, if there is room; the one that is pointed at comes first.
function nameEnds(pen, chart, shown, xs, ys, ink) {
  if (shown.length <= view.tints.length || shown.some(({ own }) => own.style === "points") || shown.length > MOST_NAMED || new Set(shown.map(({ own }) => own.run)).size < shown.length) return;
  const taken = [];
  pen.font = ink.font;
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  pen.lineWidth = 3;
  pen.strokeStyle = ink.paper;
  for (const { own, x, last } of [...shown].sort((a, b) => shareOf(b.own) - shareOf(a.own))) {
    const end = xs.at(Math.min(x[last - 1], xs.high)), edge = xs.at(xs.high) - 2, width = pen.measureText(own.name).width;
    const beside = end + 5 + width < edge, y = ys.at(lastOf(own.y.subarray(0, last))) + (beside ? 7 : -3);
    const box = { right: beside ? end + 5 + width : Math.max(Math.min(end, edge), FRAME.left + width), width, y };
    if (!(y > FRAME.top + 12 && y < ys.at(ys.low)) || taken.some((other) => collide(box, other))) continue;
    taken.push(box);
    pen.strokeText(own.name, box.right, y);
    pen.fillStyle = ink.loud;
    pen.globalAlpha = shareOf(own);
    pen.fillText(own.name, box.right, y);
    pen.globalAlpha = 1;
  }
}

function collide(one, other) {
  return Math.abs(one.y - other.y) < 13 && one.right - one.width < other.right + 4 && other.right - other.width < one.right + 4;
}

function shareOf(own) { return view.pointed === null || own.run === view.pointed ? 1 : AWAY; }
// Beyond as many runs as there are colors, dashes tell them apart.
function dashOf(number, style) { return style === "dashed" ? look.dashes[1] : look.dashes[Math.floor(number / view.tints.length) % look.dashes.length]; }

function isCrowded(first, last, xs) {
  return last - first > 2 * (xs.at(xs.high) - xs.at(xs.low));
}

function trace(pen, x, y, first, last, xs, ys, width, held) {
  pen.lineWidth = width;
  pen.beginPath();
  let open = false, before = 0;
  for (let i = first; i < last; i++) {
    if (y[i] !== y[i] || (ys.log && y[i] <= 0)) { open = false; continue; }
    const px = xs.at(x[i]), py = ys.at(y[i]);
    if (!open) pen.moveTo(px, py);
    else { if (held) pen.lineTo(px, before); pen.lineTo(px, py); }
    open = true;
    before = py;
  }
  pen.stroke();
}

function dot(pen, x, y) {
  pen.beginPath();
  pen.arc(x, y, 2.4, 0, 7);
  pen.fill();
}

function path(pen, points) {
  pen.lineWidth = 1.4;
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

// From the lowest to the highest value of each column of pixels; and where the mean of each column is.
function band(pen, own, x, first, last, xs, ys) {
  const lows = own.low || own.y, highs = own.high || own.y;
  const reaches = (v) => v === v && !(ys.log && v <= 0);
  const middles = [];
  let column = NaN, low = 0, high = 0, sum = 0, count = 0;
  const paint = () => {
    if (column !== column) return;
    pen.fillRect(column, ys.at(high), wide, Math.max(ys.at(low) - ys.at(high), 1));
    middles.push([column + wide / 2, ys.at(sum / count)]);
  };
  const wide = Math.max(1, last - first > 1 ? Math.ceil((xs.at(x[last - 1]) - xs.at(x[first])) / (last - first)) : 1);
  for (let i = first; i < last; i++) {
    if (!reaches(lows[i])) continue;
    const px = Math.floor(xs.at(x[i]) / wide) * wide;
    if (px !== column) { paint(); column = px; low = lows[i]; high = highs[i]; sum = own.y[i]; count = 1; }
    else { low = Math.min(low, lows[i]); high = Math.max(high, highs[i]); sum += own.y[i]; count++; }
  }
  paint();
  return middles;
}

function drawMarks(pen, chart, xs, floor) {
  for (const mark of marksOf(chart)) {
    const x = mark.x[chart.axis().name], end = mark.end && mark.end[chart.axis().name];
    if (x === undefined || x > xs.high || (end ?? x) < xs.low) continue;
    pen.fillStyle = pen.strokeStyle = kindColor(mark.color);
    const from = xs.at(Math.max(x, xs.low)), to = end === undefined || end === null ? from : xs.at(end);
    pen.globalAlpha = 0.22;
    if (to > from) pen.fillRect(from, FRAME.top, Math.max(to - from, 1), floor - FRAME.top);
    pen.globalAlpha = 0.8;
    pen.lineWidth = 1;
    pen.setLineDash([3, 3]);
    if (to === from) line(pen, from, FRAME.top, from, floor);
    pen.setLineDash([]);
    pen.fillRect(from - (to === from ? 2 : 0), FRAME.top, Math.max(to - from, 4), 3);
    pen.globalAlpha = 1;
  }
}

function marksOf(chart) {
  return (chart.panel.marks || []).filter((mark) => !view.hiddenKinds.has(mark.kind) && !view.hiddenRuns.has(mark.run));
}

function drawLevel(pen, level, ys, size, ink) {
  const y = Math.round(ys.at(level.value)) + 0.5;
  pen.strokeStyle = ink.loud;
  pen.setLineDash([2, 3]);
  pen.lineWidth = 1;
  line(pen, FRAME.left, y, size.width - FRAME.right, y);
  pen.setLineDash([]);
}

function nothingHere(pen, size, ink) {
  pen.font = ink.font;
  pen.fillStyle = ink.quiet;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText("nothing to show here", size.width / 2, size.height / 2);
}

// What stands under the pointer: where that is, a line a curve, and the events there.
function curvesAt(chart, value, pixel) {
  const axis = chart.axis(), values = [];
  for (const own of chart.shown()) {
    const x = own.x[axis.name], at = nearest(x, value);
    if (at < 0 || Math.abs(chart.frame.xs.at(x[at]) - pixel) > 24) continue;
    const mean = smoothed(chart, own), unit = chart.panel.y;
    let text = withUnit(own.y[at], unit);
    if (own.low && own.low[at] !== own.high[at]) text += ` (${exactly(own.low[at])} to ${withUnit(own.high[at], unit)})`;
    if (mean) text += `, running mean ${exactly(Number(mean[at].toPrecision(6)))}`;
    values.push({ name: own.name, text, color: tint(own.tint), x: x[at], y: chart.frame.ys.at(own.y[at]) });
  }
  const events = marksOf(chart).filter((mark) => touches(mark, axis.name, chart.frame.xs, pixel));
  if (!values.length && !events.length) return null;
  const x = values.length ? values.reduce((a, b) => (Math.abs(b.x - value) < Math.abs(a.x - value) ? b : a)).x : value;
  const where = ["s", "clock"].includes(axis.unit) ? placeOf(x, axis) : `${axis.title} ${placeOf(x, axis)}`;
  return { x, where, values, events: events.slice(0, 6).map((mark) => ({ text: mark.text, color: kindColor(mark.color) })) };
}

function touches(mark, axis, xs, pixel) {
  const x = mark.x[axis], end = mark.end ? mark.end[axis] : x;
  return x !== undefined && pixel >= xs.at(x) - 4 && pixel <= xs.at(end ?? x) + 4;
}
