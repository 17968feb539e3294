// The x axes of curves: those that the page carries, and those that follow from them. A plot of a recording that knows
// only the time gets the step and whatever else a curve beside it has, and what the page says of each moment, such as
// the energy; a plot by time gets the wall clock; curves of several runs get the share of their run.

const SHARE = { name: "share", title: "share of the run", unit: "%" };
const CLOCK = { name: "clock", title: "wall clock, UTC", unit: "clock" }; // in seconds since 1970

// A property that is worked out when it is first asked for.
function lazily(object, name, make) {
  const settled = { configurable: true, enumerable: true };
  Object.defineProperty(object, name, { ...settled, get() { const value = make(); Object.defineProperty(object, name, { ...settled, value, writable: true }); return value; } });
}

function addAxes(all, runs, conversions = []) {
  const curves = all.filter((chart) => chart.panel.kind === "curves"), timed = curves.filter((chart) => chart.panel.axes[0].name === "time");
  const guides = timed.map((chart) => guideOf(timed, chart));
  timed.forEach((chart, at) => guides[at] && carryOver(chart, guides[at].panel.axes, guides[at].series[0].x));
  for (const { link, axis, seconds, values } of conversions)
    for (const chart of timed) if (chart.panel.link === link) carryOver(chart, [axis], { time: seconds, [axis.name]: values });
  for (const chart of curves) addClock(chart);
  if (runs.length > 1) for (const [base, group] of byFirstAxis(curves)) addShare(group, base, reachOfRuns(group, base));
}

// The curve beside it, of the same recording, that lies on most axes.
function guideOf(curves, chart) {
  const lone = curves.filter((other) => other.panel.link === chart.panel.link && other.series.length === 1 && other.series[0].x.time);
  return lone.reduce((best, other) => (!best || other.panel.axes.length > best.panel.axes.length ? other : best), null);
}

// `known` has places of one curve on each of the axes.
function carryOver(chart, axes, known) {
  for (const axis of axes) {
    if (chart.panel.axes.some((other) => other.name === axis.name)) continue;
    chart.panel.axes.push(axis);
    for (const own of chart.series) lazily(own.x, axis.name, () => along(own.x.time, known.time, known[axis.name]));
  }
  for (const { x, end } of chart.panel.marks)
    for (const axis of axes)
      for (const place of [x, end]) if (place && "time" in place && !(axis.name in place)) lazily(place, axis.name, () => along([place.time], known.time, known[axis.name])[0]);
}

// Where each curve by time says from which moment it counts.
function addClock({ panel, series }) {
  const time = panel.axes.find((axis) => axis.name === "time"), startOf = (own) => own.start_ms ?? time?.start_ms;
  if (!time || !series.length || !series.every((own) => own.x.time && Number.isFinite(startOf(own)))) return;
  panel.axes.push(CLOCK);
  for (const own of series) lazily(own.x, CLOCK.name, () => Float64Array.from(own.x.time, (value) => startOf(own) / 1000 + value));
  const starts = new Map(series.map((own) => [own.run, startOf(own)]));
  for (const { run, x, end } of panel.marks) {
    const start = starts.get(run) ?? time.start_ms;
    for (const place of [x, end]) if (place && "time" in place && Number.isFinite(start)) lazily(place, CLOCK.name, () => start / 1000 + place.time);
  }
}

// What `to` is where `from` has these places; before the first and after the last it stands still.
function along(places, from, to) {
  let at = 0;
  return Float64Array.from(places, (place) => {
    while (at + 2 < from.length && from[at + 1] <= place) at++;
    if (from.length < 2) return to[0];
    const share = Math.min(Math.max((place - from[at]) / (from[at + 1] - from[at] || 1), 0), 1);
    return to[at] + share * (to[at + 1] - to[at]);
  });
}

function byFirstAxis(curves) {
  const groups = new Map();
  for (const chart of curves.filter((other) => other.series.some((own) => own.run))) {
    const base = chart.panel.axes[0].name;
    groups.set(base, [...(groups.get(base) || []), chart]);
  }
  return groups;
}

function reachOfRuns(group, base) {
  const reaches = new Map();
  for (const { run, x } of group.flatMap((chart) => chart.series))
    if (x[base]?.length) reaches.set(run, reach([...(reaches.get(run) || []), x[base][0], x[base][x[base].length - 1]]));
  return reaches;
}

function addShare(group, base, reaches) {
  const shareOfRun = (run, value) => { const [low, high] = reaches.get(run); return (100 * (value - low)) / (high - low || 1); };
  for (const { panel, series } of group) {
    panel.axes.push(SHARE);
    for (const own of series) if (own.x[base]?.length) lazily(own.x, SHARE.name, () => own.x[base].map((value) => shareOfRun(own.run, value)));
    for (const { run, x, end } of panel.marks)
      for (const place of [x, end]) if (place && reaches.has(run) && base in place) lazily(place, SHARE.name, () => shareOfRun(run, place[base]));
  }
}
