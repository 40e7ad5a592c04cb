"use strict";

// The panel of one model: its maps as a grid of entries, or as links between words.
const FONT = 12, GAP = 6, LEAST_CELL = 12, MOST_CELL = 48, LEAST_STEP = 3, MOST_STEP = 24, LINK_ROW = 24, LINK_SPAN = 220;

class Panel {
  // `series` has the channels of a time series, whose steps are the queries and keys; it is null for sentences.
  constructor(model, place, series) {
    this.name = model.name;
    this.series = series;
    this.maps = Object.fromEntries(Object.entries(model.attentions).map(([kind, found]) => [kind, new Maps(found)]));
    this.section = document.createElement("section");
    this.section.className = "panel";
    this.section.append(this.heading(), this.note(model.note), this.drawing(), this.legend(), this.entry());
    place.append(this.section);
    this.picked = null; // the [query, key] that was clicked
    this.hovered = null;
  }

  heading() {
    const heading = document.createElement("h2");
    heading.textContent = this.name;
    return heading;
  }

  note(text) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = text;
    return note;
  }

  drawing() {
    const frame = document.createElement("div");
    frame.className = "drawing";
    this.frame = frame;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.addEventListener("mousemove", (event) => this.point(this.at(event), false));
    this.canvas.addEventListener("mouseleave", () => this.point(null, false));
    this.canvas.addEventListener("click", (event) => this.point(this.at(event), true));
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    frame.append(this.canvas);
    return frame;
  }

  legend() {
    const legend = document.createElement("div");
    legend.className = "legend";
    [this.low, this.bar, this.high] = ["span", "span", "span"].map((kind) => legend.appendChild(document.createElement(kind)));
    this.bar.className = "bar";
    return legend;
  }

  entry() {
    this.output = document.createElement("output");
    this.output.className = "entry";
    this.output.style.display = "block";
    this.output.setAttribute("aria-live", "polite");
    return this.output;
  }

  get map() {
    return this.maps[this.shown.attention];
  }

  // Draws the state; `from` and `part` are for a map that is changing from layer `from` to the current one.
  draw(shown, from = shown.layer, part = 1) {
    this.shown = shown;
    const { map } = this;
    const head = Math.min(shown.head, map.heads);
    const layer = Math.min(shown.layer, map.layers.length - 1);
    const diverging = shown.stage !== "probabilities";
    const over = shown.scale === "all" ? map.layers.map((_, place) => place) : [layer];
    const most = map.most(over, shown.stage, head);
    this.values = map.values(layer, shown.stage, head);
    if (part < 1) {
      const before = map.values(Math.min(from, map.layers.length - 1), shown.stage, head);
      this.values = this.values.map((value, place) => part * value + (1 - part) * before[place]);
    }
    this.look = { head, layer, diverging, most, colours: COLOURS[diverging ? "logits" : "probabilities"] };
    const style = getComputedStyle(document.documentElement);
    this.ink = Object.fromEntries(["--text", "--quiet", "--masked", "--accent", "--page"].map((name) => [name, style.getPropertyValue(name).trim()]));
    (shown.view === "links" ? this.drawLinks : this.drawMap).call(this);
    const digits = most >= 100 ? 0 : most >= 10 ? 1 : most >= 1 ? 2 : 3;
    this.low.textContent = diverging ? (-most).toFixed(digits) : "0";
    this.high.textContent = most.toFixed(digits);
    this.bar.style.background = gradient(diverging);
    this.bar.parentElement.hidden = shown.view === "links" && !diverging;
    this.write();
  }

  // Resizes the canvas, in CSS pixels, for sharp drawing on every screen; returns its context.
  sized(width, height) {
    const dense = window.devicePixelRatio || 1;
    const { canvas } = this;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `${FONT}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    return pen;
  }

  longest(words) {
    const pen = this.canvas.getContext("2d");
    pen.font = `${FONT}px system-ui, sans-serif`;
    return Math.min(140, Math.ceil(Math.max(...words.map((word) => pen.measureText(word).width))));
  }

  drawMap() {
    const { queries, keys } = this.map;
    const beside = this.series ? STRIP : 0;
    const left = this.longest(queries) + 2 * GAP + beside, top = this.longest(keys) + 2 * GAP + beside;
    const room = (this.section.clientWidth || 480) - left - 2;
    const [least, largest] = this.series ? [LEAST_STEP, MOST_STEP] : [LEAST_CELL, MOST_CELL];
    const cell = Math.max(least, Math.min(largest, Math.floor(room / keys.length)));
    const pen = this.sized(left + keys.length * cell + 1, top + queries.length * cell + 1);
    this.grid = { left, top, cell };
    const { colours, diverging, most } = this.look;
    this.values.forEach((value, place) => {
      const x = left + (place % keys.length) * cell, y = top + Math.floor(place / keys.length) * cell;
      pen.fillStyle = Number.isNaN(value) ? this.ink["--masked"] : `rgb(${colours[placeOf(value, most, diverging)]})`;
      pen.fillRect(x, y, cell, cell);
    });
    if (this.series) {
      drawStrip(pen, this.series, { along: top, edge: left, cell, upright: true });
      drawStrip(pen, this.series, { along: left, edge: top, cell, upright: false });
    }
    const every = Math.ceil((FONT * (this.series ? 2 : 1)) / cell);
    const [query, key] = this.pointed() || [-1, -1];
    queries.forEach((word, row) => {
      if (row % every && row !== query) return;
      pen.fillStyle = row === query ? this.ink["--accent"] : this.ink["--text"];
      pen.textAlign = "right";
      pen.fillText(word, left - beside - GAP, top + (row + 0.5) * cell, left - beside - GAP - 2);
    });
    keys.forEach((word, column) => {
      if (column % every && column !== key) return;
      pen.save();
      pen.translate(left + (column + 0.5) * cell, top - beside - GAP);
      pen.rotate(-Math.PI / 2);
      pen.fillStyle = column === key ? this.ink["--accent"] : this.ink["--text"];
      pen.textAlign = "left";
      pen.fillText(word, 0, 0, top - beside - GAP - 2);
      pen.restore();
    });
    if (query >= 0) {
      pen.strokeStyle = this.ink["--accent"];
      pen.lineWidth = 2;
      pen.strokeRect(left + key * cell, top + query * cell, cell, cell);
    }
  }

  drawLinks() {
    const { queries, keys } = this.map;
    const left = this.longest(queries) + 2 * GAP, right = this.longest(keys) + 2 * GAP;
    const rows = Math.max(queries.length, keys.length);
    const span = Math.max(80, Math.min(LINK_SPAN, (this.section.clientWidth || 480) - left - right - 2));
    const pen = this.sized(left + span + right, (rows + 1) * LINK_ROW);
    this.grid = { left, span };
    const { colours, diverging, most } = this.look;
    const pointed = this.pointed();
    const height = (row) => (row + 1) * LINK_ROW;
    this.values.forEach((value, place) => {
      const query = Math.floor(place / keys.length), key = place % keys.length;
      const strength = most === 0 || Number.isNaN(value) ? 0 : Math.abs(value) / most;
      if (strength < 0.02) return;
      pen.globalAlpha = strength * (pointed && pointed[0] !== query ? 0.06 : 1);
      pen.strokeStyle = diverging ? `rgb(${colours[value < 0 ? 40 : 215]})` : this.ink["--accent"];
      pen.lineWidth = 1 + 2 * strength;
      pen.beginPath();
      pen.moveTo(left, height(query));
      pen.lineTo(left + span, height(key));
      pen.stroke();
    });
    pen.globalAlpha = 1;
    const write = (words, x, align, marked) =>
      words.forEach((word, row) => {
        pen.fillStyle = row === marked ? this.ink["--accent"] : this.ink["--text"];
        pen.textAlign = align;
        pen.fillText(word, x, height(row), 140);
      });
    write(queries, left - GAP, "right", pointed ? pointed[0] : -1);
    write(keys, left + span + GAP, "left", pointed ? pointed[1] : -1);
  }

  // The entry under the mouse, [query, key], or null.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const { queries, keys } = this.map;
    const inside = (place, words) => (place >= 0 && place < words.length ? place : null);
    if (this.shown.view === "links") {
      const row = Math.round(y / LINK_ROW) - 1;
      if (x > this.grid.left + this.grid.span / 2) {
        const key = inside(row, keys);
        return key === null ? null : [this.strongest(null, key), key];
      }
      const query = inside(row, queries);
      return query === null ? null : [query, this.strongest(query, null)];
    }
    const { left, top, cell } = this.grid;
    const query = inside(Math.floor((y - top) / cell), queries), key = inside(Math.floor((x - left) / cell), keys);
    return query === null || key === null ? null : [query, key];
  }

  // The key of a query, or the query of a key, with the largest value.
  strongest(query, key) {
    const { queries, keys } = this.map;
    const places = query === null ? queries.map((_, row) => row * keys.length + key) : keys.map((_, column) => query * keys.length + column);
    let best = 0;
    places.forEach((place, number) => {
      if (!(this.values[place] <= this.values[places[best]]) && !Number.isNaN(this.values[place])) best = number;
    });
    return best;
  }

  pointed() {
    const found = this.hovered || this.picked;
    if (!found) return null;
    return [Math.min(found[0], this.map.queries.length - 1), Math.min(found[1], this.map.keys.length - 1)];
  }

  point(entry, keep) {
    if (keep) this.picked = entry;
    this.hovered = keep ? null : entry;
    this.section.dispatchEvent(new CustomEvent("pointed", { bubbles: true, detail: { entry, keep } }));
  }

  // Arrow keys move from entry to entry.
  step(event) {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [query, key] = this.pointed() || [0, -move[1]];
    const { queries, keys } = this.map;
    const within = (place, words) => Math.max(0, Math.min(words.length - 1, place));
    this.point([within(query + move[0], queries), within(key + move[1], keys)], true);
  }

  // Writes the value of the entry that is pointed at.
  write() {
    const { shown, map, look } = this;
    const entry = this.pointed();
    this.canvas.setAttribute("aria-label", `${this.name}, layer ${look.layer + 1}, ${map.queries.length} queries by ${map.keys.length} keys`);
    if (!entry) {
      this.output.textContent = "Point at the map to read a value.";
      return;
    }
    const [query, key] = entry;
    const value = map.text(look.layer, shown.stage, look.head, query, key);
    this.output.textContent = `${query + 1} “${map.queries[query]}” → ${key + 1} “${map.keys[key]}”: ${value === null ? "masked" : value}`;
  }
}
