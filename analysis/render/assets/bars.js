// Bars that lie, a row below the other, their parts side by side; made of elements, so they wrap and print like text.
// All tracks are as long as the whole is large where that is known, else as the longest bar.

function drawBars(panel, plot) {
  const totals = panel.values.map((row) => row.reduce((sum, value) => sum + (value || 0), 0));
  const longest = Math.max(...totals, panel.whole || 0, Number.MIN_VALUE);
  plot.classList.add("bar-rows");
  panel.rows.forEach((name, index) => {
    const row = element("div", "bar-row"), track = element("div", "bar-track");
    panel.parts.forEach((part, at) => {
      const value = panel.values[index][at];
      if (value) track.append(barPart(part, at, value, totals[index], longest, panel));
    });
    const total = element("span", "bar-total", brief(totals[index], panel.unit));
    total.title = withUnit(rounded(totals[index]), panel);
    row.append(element("span", "bar-name", name), track, total);
    plot.append(row);
  });
  const legend = element("div", "legend");
  panel.parts.forEach((part, at) => {
    if (!panel.values.some((row) => row[at])) return;
    const key = swatch(part.name, kindColor(part.color));
    Object.assign(key.querySelector("i").dataset, { color: part.color, pattern: at }); // painted again with the theme
    legend.append(key);
  });
  plot.append(legend);
}

function barPart(part, at, value, total, longest, panel) {
  const share = value / total, piece = element("div", "bar-part");
  piece.style.width = `${(100 * value) / longest}%`;
  piece.dataset.color = part.color;
  piece.dataset.pattern = at;
  const percent = `${(100 * share).toFixed(share < 0.01 ? 2 : 1)} %`;
  piece.title = `${part.name}: ${withUnit(rounded(value), panel)}, ${percent}`;
  if (value / longest > 0.12) piece.append(element("span", "", percent));
  paintKind(piece);
  return piece;
}

function rounded(value) {
  return Number(value.toPrecision(7));
}

function swatch(name, color) {
  const item = element("span", "swatch"), patch = element("i");
  patch.style.background = color;
  item.append(patch, name);
  return item;
}

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}
