// Tables sort by a click on a column's head, where what stands in the column can be compared: up, down, as it came.

const LETTERS = { "": 1, k: 1e3, K: 1e3, M: 1e6, B: 1e9, T: 1e12 };
const UNITS = [{ ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 }, { mJ: 1e-3, J: 1, kJ: 1e3, kWh: 3.6e6 },
  { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }, LETTERS];
const PART = /^\s*(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*([^\d\s.,]*)/;

function makeSortable(table) {
  const body = table.tBodies[0], came = [...body.rows];
  if (came.length < 3) return;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const cells = came.map((row) => comparable(row.cells[column]?.textContent.trim() ?? "")), order = orderOf(cells);
    if (!order || !head.textContent) return;
    const button = element("button", "sort", head.textContent);
    button.type = "button";
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] || "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (next !== "none") head.setAttribute("aria-sort", next);
      body.append(...(next === "none" ? came : came.map((_, i) => i).sort((a, b) => order(a, b, next === "descending")).map((i) => came[i])));
    });
    head.replaceChildren(button);
  });
}

// `107.5 ±3.1 kJ` counts as `107.5 kJ`, `0.7967 @ 12,800` as `0.7967`, and `3.78–5.57` as `3.78`.
function comparable(cell) {
  const [value] = cell.split(/ @ |(?<=\d)–(?=\d)/), ranged = /^(.*?)\s*±[\d.,e+-]+\s*(\D*)$/.exec(value);
  if (!ranged) return value;
  return /\d$/.test(ranged[1]) ? `${ranged[1]} ${ranged[2]}`.trim() : ranged[1];
}

// By value if all cells are of one kind, by name if none is a number, else not at all. What is missing comes last.
function orderOf(cells) {
  const values = UNITS.map((units) => cells.map((cell) => valueOf(cell, units))).find((all) => all.every((value) => value !== undefined));
  if (values) return (a, b, down) => (values[a] === null) - (values[b] === null) || (down ? values[b] - values[a] : values[a] - values[b]);
  const same = cells.map((cell) => withSuffix(cell)), suffixes = new Set(same.map((part) => part?.suffix));
  if (suffixes.size === 1 && !suffixes.has(undefined)) return (a, b, down) => (down ? same[b].value - same[a].value : same[a].value - same[b].value);
  if (cells.some((cell) => /^[~$+−-]?\d/.test(cell))) return null;
  return (a, b, down) => (down ? -1 : 1) * cells[a].localeCompare(cells[b], undefined, { numeric: true });
}

// `4 h 19 min` -> 15540; null where nothing was measured, undefined where it is something else.
function valueOf(cell, units) {
  if (cell === "–" || cell === "") return null;
  const sign = /^[−-]/.test(cell) ? -1 : 1;
  let rest = cell.replace(/^[~$+−-]/, ""), sum = 0;
  while (rest.trim()) {
    const part = PART.exec(rest);
    if (!part || !(part[2] in units)) return undefined;
    sum += Number(part[1].replaceAll(",", "")) * units[part[2]];
    rest = rest.slice(part[0].length);
  }
  return sign * sum;
}

// `1,176 W`: one number and one word.
function withSuffix(cell) {
  const part = /^([~$+−-]?)(\d[\d,]*(?:\.\d+)?)\s*(\D*)$/.exec(cell);
  return part && { value: (/[−-]/.test(part[1]) ? -1 : 1) * Number(part[2].replaceAll(",", "")), suffix: part[3] };
}
