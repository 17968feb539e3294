// A pen that writes SVG in place of pixels: what plots ask of a canvas, and no more.

const ANCHORS = { center: "middle", right: "end", end: "end" };
const LIFTS = { top: ".8em", middle: ".35em", bottom: "-.25em" }; // from the line on which letters stand

class SvgPen {
  constructor(canvas) {
    Object.assign(this, { parts: [], path: [], dash: [], kept: [], clips: 0, measuring: canvas.getContext("2d") });
    Object.assign(this, { globalAlpha: 1, lineWidth: 1, font: "12px sans-serif", strokeStyle: "#000", fillStyle: "#000", textAlign: "left", textBaseline: "alphabetic" });
  }
  save() { this.kept.push(0); }
  restore() { this.parts.push("</g>".repeat(this.kept.pop())); }
  open(attributes) { this.parts.push(`<g ${attributes}>`); this.kept[this.kept.length - 1]++; }
  translate(x, y) { this.open(`transform="translate(${x} ${y})"`); }
  beginPath() { this.path = []; }
  moveTo(x, y) { this.path.push(`M${near(x)} ${near(y)}`); }
  lineTo(x, y) { this.path.push(`L${near(x)} ${near(y)}`); }
  rect(x, y, width, height) { this.path.push(`M${near(x)} ${near(y)}h${near(width)}v${near(height)}h${near(-width)}z`); }
  arc(x, y, radius) { this.path.push(`M${near(x - radius)} ${near(y)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`); }
  clip() {
    const name = `clip${++this.clips}`;
    this.parts.push(`<clipPath id="${name}"><path d="${this.path.join("")}"/></clipPath>`);
    this.open(`clip-path="url(#${name})"`);
  }
  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.parts.push(`<path d="${this.path.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" opacity="${this.globalAlpha}"${dash}/>`);
  }
  fill() { this.parts.push(`<path d="${this.path.join("")}" fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`); }
  fillRect(x, y, width, height) {
    this.parts.push(`<rect x="${near(x)}" y="${near(y)}" width="${near(width)}" height="${near(height)}" fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`);
  }
  strokeText(text, x, y) { this.write(text, x, y, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"`); }
  fillText(text, x, y) { this.write(text, x, y, `fill="${this.fillStyle}"`); }
  write(text, x, y, ink) {
    const font = this.font.replaceAll('"', "'");
    this.parts.push(`<text x="${near(x)}" y="${near(y)}" dy="${LIFTS[this.textBaseline] || 0}" text-anchor="${ANCHORS[this.textAlign] || "start"}" style="font:${font}" ${ink}>${markup(text)}</text>`);
  }
  drawImage(image, x, y, width, height) {
    this.parts.push(`<image href="${image.toDataURL()}" x="${near(x)}" y="${near(y)}" width="${near(width)}" height="${near(height)}" preserveAspectRatio="none" style="image-rendering:pixelated"/>`);
  }
  setLineDash(dash) { this.dash = dash; }
  measureText(text) { this.measuring.font = this.font; return this.measuring.measureText(text); }
  text(width, height) {
    return `<svg xmlns="${SVG}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${this.parts.join("")}</svg>\n`;
  }
}

function near(value) { return Math.round(100 * value) / 100; }

function markup(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
