// The GPUs: a row each, with the last value of every reading and its last minutes as a strip.

const READINGS = [["power_w_mean", "power", "W", "power_w"], ["temp_c_max", "temperature", "°C", null], ["util_mean", "utilization", "%", null],
  ["mem_used_mib_max", "memory", "GiB", "memory_total_mib"], ["sm_mhz_mean", "SM clock", "MHz", null]];

function drawGpus(place) {
  const rows = model.runs.flatMap((run, number) => (wanted(partOf(run, "facts")?.name ?? "") ? namesOf(run, "gpu") : []).map((name) => ({ run, number, name, facts: partOf(run, "gpu", name) })));
  const shown = READINGS.filter(([reading]) => rows.some((row) => reading in row.facts.last));
  const key = JSON.stringify([rows.map((row) => [row.number, row.name, row.facts.name]), shown.map(([name]) => name)]);
  if (place.dataset.key !== key) {
    place.dataset.key = key;
    place.replaceChildren(...(rows.length ? [newTable(rows, shown)] : []));
  }
  rows.forEach((row, at) => shown.forEach((reading, column) => {
    const cell = place.querySelector("tbody").rows[at].cells[column + 1];
    drawStrip(cell, row, reading);
  }));
}

function newTable(rows, shown) {
  const box = element("div", "table"), scroll = scrollBox(), table = element("table", "gpus");
  const head = table.createTHead().insertRow(), body = table.createTBody();
  head.append(element("th", "", "GPU"), ...shown.map(([, title, unit]) => element("th", "", `${title}, ${unit}`)));
  for (const row of rows) {
    const line = body.insertRow(), name = line.insertCell();
    const run = model.runs.length > 1 ? `${partOf(row.run, "facts")?.name} · ` : "";
    name.append(`${run}${row.facts.node === "" ? "" : `node ${row.facts.node} · `}${row.facts.gpu} `, element("small", "", row.facts.name || ""));
    for (const reading of shown) line.append(newStrip(row, reading));
  }
  scroll.append(table);
  box.append(element("h2", "", "GPUs, the last ten minutes"), scroll);
  return box;
}

function newStrip({ run, name }, reading) {
  const cell = element("td"), strip = element("div", "strip"), canvas = element("canvas");
  strip.append(element("b"), canvas);
  cell.append(strip);
  canvas.addEventListener("pointermove", (event) => showValue(run, name, reading, canvas, event));
  canvas.addEventListener("pointerleave", () => { document.getElementById("hover").hidden = true; });
  return cell;
}

function valuesOf(run, name, reading) {
  return partOf(run, "strips", name)?.[READINGS.indexOf(reading)] || new Float64Array();
}

function drawStrip(cell, { run, name, facts }, reading) {
  const [key, , , most] = reading, values = valuesOf(run, name, reading), canvas = cell.querySelector("canvas");
  say(cell.querySelector("b"), key in facts.last ? reads(facts.last[key], reading, facts) : "–");
  const { pen, size } = fresh(canvas), ends = reach(Array.from(values).filter(Number.isFinite));
  if (!ends || !size.width) return;
  const top = facts.limits[most] || (key === "util_mean" ? 100 : ends[1]);
  const whole = key === "util_mean" || key === "mem_used_mib_max" ? [0, Math.max(top, ends[1])] : padded(...ends);
  const xs = scale(0, Math.max(values.length - 1, 1), 0, size.width - 1), ys = scale(...whole, size.height - 2, 2);
  pen.strokeStyle = inks().grid;
  pen.lineWidth = 1;
  line(pen, 0, size.height - 0.5, size.width, size.height - 0.5);
  pen.strokeStyle = tint(READINGS.indexOf(reading));
  trace(pen, Float64Array.from(values, (_, i) => i), values, 0, values.length, xs, ys, 1.3);
}

function reads(value, [key, , , most], facts) {
  if (typeof value !== "number") return value;
  if (key !== "mem_used_mib_max") return exactly(Math.round(value));
  return (value / 1024).toFixed(1) + (facts.limits[most] ? `/${Math.round(facts.limits[most] / 1024)}` : "");
}

function showValue(run, name, reading, canvas, event) {
  const values = valuesOf(run, name, reading), box = canvas.getBoundingClientRect(), hover = document.getElementById("hover");
  const at = Math.round(((event.clientX - box.left) / (box.width - 1)) * (values.length - 1));
  if (!(at >= 0 && at < values.length)) { hover.hidden = true; return; }
  const [key, title, unit] = reading, value = key === "mem_used_mib_max" ? values[at] / 1024 : values[at];
  const ago = values.length - 1 - at, row = element("div", "value");
  row.append(element("span", "", title), element("b", "", Number.isFinite(value) ? `${exactly(Number(value.toPrecision(5)))} ${unit}` : "not measured"));
  hover.replaceChildren(element("div", "where", `GPU ${partOf(run, "gpu", name).gpu}, ${ago ? `${span(ago)} before the last second` : "the last second"}`), row);
  hover.hidden = false;
  hover.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - hover.offsetWidth - 4))}px`;
  hover.style.top = `${Math.max(4, Math.min(event.clientY + 16, innerHeight - hover.offsetHeight - 8))}px`;
}
