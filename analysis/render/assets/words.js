// Numbers as people read them: whole under the pointer, short on an axis.

const SECONDS = [0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 432000, 864000];

// Every digit that was measured, and none that a float of 32 bits made up.
function exactly(value) {
  if (!Number.isFinite(value)) return "not measured";
  let text = String(value);
  if (Math.fround(value) === value || text.replace(/[-.]/g, "").length > 15) {
    for (let digits = 1; digits <= 9; digits++) {
      const shorter = Number(value.toPrecision(digits));
      if (Math.fround(shorter) === Math.fround(value)) { text = String(shorter); break; }
    }
  }
  return grouped(text);
}

function grouped(text) {
  if (text.includes("e")) return text;
  const [whole, part] = text.split(".");
  const thousands = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? thousands : `${thousands}.${part}`;
}

function withUnit(value, axis) {
  if (axis.unit === "s") return `${preciseTime(value)}${moment(value, axis)}`;
  return exactly(value) + (axis.unit ? ` ${axis.unit}` : "");
}

function moment(seconds, axis) {
  return axis.start_ms === null || axis.start_ms === undefined ? "" : ` (${utc(axis.start_ms + 1000 * seconds)})`;
}

function utc(milliseconds) { return `${new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19)} UTC`; }

// A place on an x axis under the pointer.
function placeOf(value, axis) {
  if (axis.unit === "clock") return utc(1000 * value);
  if (axis.unit === "J") return energy(value);
  if (axis.unit === "$") return `$${grouped(value.toFixed(2))}`;
  return withUnit(value, axis);
}

// A moment under the pointer, whole: `7 h 05 min 3.25 s`
function preciseTime(seconds) {
  if (seconds < 0) return `−${preciseTime(-seconds)}`;
  const rounded = Math.round(seconds * 1000) / 1000;
  const hours = Math.floor(rounded / 3600), minutes = Math.floor((rounded % 3600) / 60);
  const rest = Math.round((rounded % 60) * 1000) / 1000;
  if (hours) return `${grouped(String(hours))} h ${two(minutes)} min ${rest} s`;
  return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

// A sum at a glance, in the words of text.py: `4 h 19 min`, `40.2 kJ`, `20.65 GiB`.
function brief(value, unit) {
  if (unit === "s") return duration(value);
  if (unit === "J") return energy(value);
  return `${grouped(String(Number(value.toPrecision(4))))}${unit ? ` ${unit}` : ""}`;
}

const DURATIONS = [[86_400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

// `350 ms`, `4.2 s`, `1 h 02 min`: rounded to the last unit shown.
function duration(seconds) {
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds > 0 && Number(fixed(1000 * seconds, 0)) < 1000) return `${fixed(1000 * seconds, 0)} ms`;
  if (Number(fixed(seconds, 1)) < 60) return `${fixed(seconds, 1)} s`;
  for (const [size, unit, small, part] of DURATIONS) {
    const parts = Number(fixed(seconds / small, 0)) * small;
    if (parts >= size) return `${grouped(String(Math.floor(parts / size)))} ${unit} ${two((parts % size) / small)} ${part}`;
  }
  return "1 min 00 s";
}

// `12.5 mJ`, `771.2 J`, `16.3 kJ`, `1.25 kWh`
function energy(joules) {
  const size = Math.abs(joules);
  if (size > 0 && size < 0.9995) return `${threeDigits(1000 * joules)} mJ`;
  if (Number(fixed(size, 1)) < 10_000) return `${grouped(fixed(joules, 1))} J`;
  if (Number(fixed(size / 1000, 1)) < 3600) return `${grouped(fixed(joules / 1000, 1))} kJ`;
  return `${grouped(fixed(joules / 3_600_000, 2))} kWh`;
}

function threeDigits(value) {
  const size = Math.abs(value);
  return size < 0.01 ? String(Number(value.toPrecision(4))) : fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// As Python rounds: a tie goes to the even digit.
function fixed(value, digits) {
  const up = value.toFixed(digits);
  if (!/^-?\d+\.\d*?50*$/.test(value.toFixed(60)) || Number(value.toFixed(digits + 1)) !== value) return up;
  const down = (Number(up) - Math.sign(value) * 10 ** -digits).toFixed(digits);
  return Number(up.at(-1)) % 2 && Math.abs(Number(up)) > Math.abs(value) ? down : up;
}

// Whether a name holds what was typed, as it stands or as a regular expression.
function fitting(typed) {
  const wanted = typed.trim().toLowerCase();
  let pattern = null;
  try { pattern = new RegExp(wanted, "i"); } catch { /* not one, or not yet */ }
  return (name) => name.toLowerCase().includes(wanted) || Boolean(pattern?.test(name));
}

function two(number) {
  return String(number).padStart(2, "0");
}

function ticks(low, high, most, unit) {
  const wanted = (high - low) / Math.max(most, 1);
  const step = unit === "s" || unit === "clock" ? SECONDS.find((s) => s >= wanted) ?? niceStep(wanted / 86400) * 86400 : niceStep(wanted);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return { at: found, step };
}

function niceStep(wanted) {
  const power = 10 ** Math.floor(Math.log10(wanted));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= wanted * (1 - 1e-9));
}

function logTicks(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const factors = last - first > 3 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = first; power <= last; power++)
    for (const factor of factors) if (factor * 10 ** power >= low && factor * 10 ** power <= high) found.push(factor * 10 ** power);
  return found.length > 1 ? found : ticks(low, high, 4).at;
}

// In the letter of the largest of its axis, so that 8k stands beside 10k.
function short(value, step, unit, largest) {
  if (unit === "s") return shortTime(value, step);
  if (unit === "clock") return shortClock(value, step);
  const size = Math.max(Math.abs(value), step || 0, largest || 0);
  const tiny = size < 1e-4 && !(step >= 1e-5); // a tick of 0.00005 beside one of 0.00010
  if (size >= 1e15 || tiny) return value === 0 ? "0" : value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  for (const [limit, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]])
    if (size >= limit) return value === 0 ? "0" : trimmed(value / (letter === "k" ? 1e3 : limit), step / (letter === "k" ? 1e3 : limit)) + letter;
  return trimmed(value, step);
}

function trimmed(value, step) {
  const digits = step > 0 ? Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)) : 3;
  const text = value.toFixed(Math.min(digits, 10));
  return grouped(step > 0 ? text : text.replace(/\.?0+$/, "")).replace("-", "−");
}

// `14:30`, with seconds where ticks are nearer; the day at midnight.
function shortClock(seconds, step) {
  const [day, time] = new Date(1000 * seconds).toISOString().split("T");
  if (step >= 86400 || time.startsWith("00:00:00")) return day.slice(5);
  return time.slice(0, step < 1 ? 12 : step < 60 ? 8 : 5);
}

function shortTime(seconds, step) {
  if (seconds === 0) return "0";
  if (step >= 86400) return `${Math.round(seconds / 86400)} d`;
  if (step >= 3600) return `${Math.round(seconds / 3600)} h`;
  if (step < 60 && seconds < 60) return `${Number(seconds.toFixed(3))} s`;
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
  const clock = hours ? `${hours}:${two(minutes)}` : `${minutes}`;
  return step < 60 ? `${clock}:${two(whole % 60)}` : hours ? `${clock} h` : `${clock} min`;
}
