"use strict";
// The page's numbers: gzip in base64 -> arrays of doubles, as `packing.py` laid them out. NaN was not measured.

async function unpack(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function numbersAt(bytes, spot) {
  if (spot.as === "bytes") return bytes.subarray(spot.at, spot.at + spot.n);
  if (spot.known === undefined) return readNumbers(bytes, spot, spot.n);
  const known = (i) => (bytes[spot.known + (i >> 3)] >> (7 - (i & 7))) & 1;
  let count = 0;
  for (let i = 0; i < spot.n; i++) count += known(i);
  const present = readNumbers(bytes, spot, count);
  const whole = new Float64Array(spot.n).fill(NaN);
  for (let i = 0, next = 0; i < spot.n; i++) if (known(i)) whole[i] = present[next++];
  return whole;
}

function readNumbers(bytes, spot, count) {
  return spot.as === "steps" ? readSteps(bytes, spot, count) : readFloats(bytes, spot, count);
}

function readSteps(bytes, spot, count) {
  const values = new Float64Array(count);
  const divisor = 10 ** spot.digits;
  let sum = 0;
  for (let i = 0; i < count; i++) {
    let folded = 0;
    for (let plane = 3; plane >= 0; plane--) folded = folded * 256 + bytes[spot.at + plane * count + i];
    sum += folded % 2 ? -(folded + 1) / 2 : folded / 2;
    values[i] = sum / divisor;
  }
  return values;
}

function readFloats(bytes, spot, count) {
  const width = spot.as === "floats64" ? 8 : 4;
  const mixed = new Uint8Array(width * count);
  for (let plane = 0, from = spot.at; plane < width; plane++)
    for (let to = plane; to < mixed.length; to += width) mixed[to] = bytes[from++];
  return width === 8 ? new Float64Array(mixed.buffer) : Float64Array.from(new Float32Array(mixed.buffer));
}
