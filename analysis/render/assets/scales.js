// Where things are: the frame of a plot, values <-> pixels, and what the axes of all plots have in common.

const PRINTED_HEIGHT = 176; // so that three plots fit on a sheet
const PRINTED = 620; // CSS pixels between the margins of a sheet of A4 or letter, and of a panel on it
const FRAME = { left: 60, right: 14, top: 10, bottom: 40 };

function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : (v) => v;
  const a = f(low), width = f(high) - a || 1;
  return {
    low, high, log,
    at: (value) => from + ((f(value) - a) / width) * (to - from),
    value: (pixel) => { const v = a + ((pixel - from) / (to - from)) * width; return log ? 10 ** v : v; },
  };
}

function padded(low, high, log) {
  if (low === high) return log ? [low / 1.1, high * 1.1] : [low - (Math.abs(low) * 0.05 || 1), high + (Math.abs(high) * 0.05 || 1)];
  if (log) { const more = (high / low) ** 0.04; return [low / more, high * more]; }
  const more = 0.05 * (high - low);
  return [low >= 0 && low < more ? 0 : low - more, high + more];
}

// First index whose value is not below; x ascends.
function firstFrom(x, value) {
  let low = 0, high = x.length;
  while (low < high) { const middle = (low + high) >> 1; if (x[middle] < value) low = middle + 1; else high = middle; }
  return low;
}

function nearest(x, value) {
  const after = firstFrom(x, value);
  if (after === 0) return x.length ? 0 : -1;
  return after < x.length && x[after] - value < value - x[after - 1] ? after : after - 1;
}

function drawAxes(pen, size, xs, ys, xAxis, yAxis, ink) {
  const { left, right, top, bottom } = FRAME;
  const floor = size.height - bottom, edge = size.width - right;
  pen.font = ink.font;
  pen.lineWidth = 1;
  pen.strokeStyle = ink.grid;
  pen.fillStyle = ink.quiet;
  const across = xs.log ? { at: logTicks(xs.low, xs.high), step: 0 } : ticks(xs.low, xs.high, Math.max(2, (edge - left) / 90), xAxis.unit);
  pen.textAlign = "center";
  pen.textBaseline = "top";
  const widest = across.step && Math.max(...across.at.map(Math.abs));
  for (const value of across.at) {
    const x = Math.round(xs.at(value)) + 0.5;
    line(pen, x, top, x, floor);
    const text = short(value, across.step, xAxis.unit, widest), half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(x, half), size.width - half), floor + 6);
  }
  const up = yAxis.names ? { at: yAxis.names.map((_, row) => row + 0.5), names: yAxis.names } : ys.log ? { at: logTicks(ys.low, ys.high), step: 0 } : ticks(ys.low, ys.high, Math.max(2, (floor - top) / 32), yAxis.unit);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const highest = up.step && Math.max(...up.at.map(Math.abs));
  for (const value of up.at) {
    const y = Math.round(ys.at(value)) + 0.5;
    line(pen, left, y, edge, y);
    pen.fillText(up.names ? up.names[Math.floor(value)] : short(value, up.step, yAxis.unit, highest), left - 6, y);
  }
  pen.strokeStyle = ink.quiet;
  line(pen, left, floor + 0.5, edge, floor + 0.5);
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  pen.fillText(axisTitle(xAxis), edge, size.height - 2);
}

function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

// A canvas as sharp as the screen, cleared, with its pen in CSS pixels; on paper all are of one width.
function fresh(canvas) {
  if (canvas.pen) return canvas; // of a picture that is not on the screen
  const size = { width: printing ? PRINTED : canvas.clientWidth, height: printing && !canvas.closest(".heat") ? Math.min(canvas.clientHeight, PRINTED_HEIGHT) : canvas.clientHeight };
  const ratio = Math.max(window.devicePixelRatio || 1, printing ? 2 : 1);
  if (canvas.width !== Math.round(size.width * ratio) || canvas.height !== Math.round(size.height * ratio)) {
    canvas.width = Math.round(size.width * ratio);
    canvas.height = Math.round(size.height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, size.width, size.height);
  return { pen, size };
}
