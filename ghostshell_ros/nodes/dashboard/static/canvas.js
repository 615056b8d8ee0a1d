// SPDX-License-Identifier: Apache-2.0
// A canvas as sharp as the screen, in the colours of the page.

/** Keep a canvas as large as its place; `draw` is called after each change of its size. */
export class Surface {
  constructor(canvas, draw) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = this.height = 0;
    new ResizeObserver(() => {
      this.fit();
      draw();
    }).observe(canvas);
    this.readColours();
  }

  fit() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const wide = Math.round(this.width * ratio);
    const high = Math.round(this.height * ratio);
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** Read the colours of the theme anew. */
  readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["ground", "panel", "line", "faint", "ink", "dim", "accent", "good", "bad", "warn", "off", "none", "on-fill"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.font = style.getPropertyValue("--font").trim();
  }

  get visible() {
    return this.width > 0 && this.height > 0 && !document.hidden;
  }

  clear() {
    this.context.clearRect(0, 0, this.width, this.height);
  }

  text(words, x, y, { colour = "ink", size = 12, weight = "", align = "left", most = Infinity } = {}) {
    const { context } = this;
    context.font = `${weight} ${size}px ${this.font}`;
    context.fillStyle = this.colours[colour];
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(most === Infinity ? words : this.cut(words, most), x, y);
  }

  /** Return as much of the words as fits, in the font that is set. */
  cut(words, most) {
    if (most < 6) return "";
    if (this.context.measureText(words).width <= most) return words;
    let [least, more] = [0, Math.min(words.length, Math.ceil(most / 3))];
    while (least < more) {
      const middle = (least + more + 1) >> 1;
      if (this.context.measureText(`${words.slice(0, middle)}…`).width <= most) least = middle;
      else more = middle - 1;
    }
    return least > 0 ? `${words.slice(0, least)}…` : "";
  }
}
