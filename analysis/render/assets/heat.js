// A heat map: a cell a window and a frequency; what was not measured stays empty.

function heatChart(panel, bytes) {
  const columns = numbersAt(bytes, panel.columns), rows = numbersAt(bytes, panel.rows), cells = numbersAt(bytes, panel.cells);
  const across = columns.length - 1, up = rows.length - 1;
  const colors = gradient(view.heat);
  const image = document.createElement("canvas");
  image.width = Math.max(across, 1);
  image.height = Math.max(up, 1);
  const pixels = new ImageData(image.width, image.height);
  for (let row = 0; row < up; row++)
    for (let column = 0; column < across; column++) {
      const cell = cells[row * across + column], at = 4 * ((up - 1 - row) * across + column);
      if (cell) pixels.data.set([...colors[cell - 1], 255], at);
    }
  image.getContext("2d").putImageData(pixels, 0, 0);
  const chart = { panel, series: [], columns, rows, cells, image, across };
  chart.axis = () => panel.axes[0];
  chart.domain = () => [columns[0], columns[across]];
  chart.draw = (canvas) => drawHeat(chart, canvas);
  chart.hoverAt = (value, pixel, y) => cellAt(chart, value, y);
  chart.says = () => `${panel.title}: a heat map by ${panel.axes[0].title} and ${panel.y.title}`;
  return chart;
}

function gradient(anchors) {
  const parts = anchors.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Array.from({ length: 255 }, (_, i) => {
    const place = (i / 254) * (parts.length - 1), below = Math.min(Math.floor(place), parts.length - 2);
    return parts[below].map((part, channel) => Math.round(part + (parts[below + 1][channel] - part) * (place - below)));
  });
}

function drawHeat(chart, canvas) {
  const { pen, size } = fresh(canvas), ink = inks(), { rows, columns, image } = chart;
  const range = view.zoom.get(linkOf(chart)) || wholeRange(chart);
  const floor = size.height - FRAME.bottom;
  const xs = scale(range[0], range[1], FRAME.left, size.width - FRAME.right, false);
  const ys = scale(rows[0], rows[rows.length - 1], floor, FRAME.top, false);
  chart.frame = { xs, ys, size };
  drawAxes(pen, size, xs, ys, chart.axis(), { ...chart.panel.y, names: chart.panel.names }, ink);
  pen.save();
  pen.beginPath();
  pen.rect(FRAME.left, FRAME.top, size.width - FRAME.left - FRAME.right, floor - FRAME.top);
  pen.clip();
  pen.imageSmoothingEnabled = false;
  const left = xs.at(columns[0]), right = xs.at(columns[columns.length - 1]);
  pen.drawImage(image, left, FRAME.top, right - left, floor - FRAME.top);
  for (const level of chart.panel.levels) {
    const y = Math.round(ys.at(level.value)) + 0.5;
    pen.strokeStyle = "#fff"; // beneath, for its cells are of every color
    pen.lineWidth = 3;
    line(pen, FRAME.left, y, size.width - FRAME.right, y);
    drawLevel(pen, level, ys, size, { loud: "#000" });
  }
  pen.restore();
}

function cellAt(chart, value, pixel) {
  const { columns, rows, cells, across, panel } = chart;
  const column = firstFrom(columns, value) - 1, row = firstFrom(rows, chart.frame.ys.value(pixel)) - 1;
  if (column < 0 || column >= across || row < 0 || row >= rows.length - 1) return null;
  const cell = cells[row * across + column], { low, high } = panel.value;
  const level = cell ? low + ((cell - 1) / 254) * (high - low) : NaN;
  const text = cell ? withUnit(Number(level.toPrecision(3)), panel.value) : "not measured";
  const where = `${withUnit(columns[column], chart.axis())} to ${preciseTime(columns[column + 1])}`;
  return { x: (columns[column] + columns[column + 1]) / 2, where, values: [{ name: rowName(panel, rows, row), text, color: "transparent" }], events: [] };
}

function rowName(panel, rows, row) {
  if (panel.names) return panel.names[row];
  return `${exactly(Number(rows[row].toPrecision(4)))} to ${withUnit(Number(rows[row + 1].toPrecision(4)), panel.y)}`;
}

function heatKey(panel) {
  const key = document.createElement("span"), canvas = document.createElement("canvas");
  key.className = "key";
  canvas.width = 255;
  canvas.height = 1;
  const pixels = new ImageData(255, 1);
  gradient(view.heat).forEach((color, i) => pixels.data.set([...color, 255], 4 * i));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  const text = (value) => short(Number(value.toPrecision(2)), 0, null);
  key.append(`${panel.value.title}: ${text(panel.value.low)} `, canvas, ` ${text(panel.value.high)} ${panel.value.unit || ""}`);
  return key;
}
