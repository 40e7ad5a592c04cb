"use strict";

// The controls of the page, and their state.
const TITLES = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "encoder-decoder attention" };
const STAGE_TITLES = {
  own: "own logits",
  input: "logits after mixing",
  logits: "logits after convolution",
  probabilities: "probabilities",
};
const SECONDS = 1.1, CHANGING = 0.45; // per layer while playing, and per transition between layers

const $ = (name) => document.getElementById(name);
const data = JSON.parse($("data").textContent);
const UNIT = data.unit; // "word", "step" or "node"
// What the queries and the keys of each attention are.
const AXES = {
  encoder: [`${UNIT} that attends`, `${UNIT} that it attends to`],
  decoder: ["target word that attends", "target word that it attends to"],
  cross: ["target word that is predicted", "source word that it attends to"],
};
const panels = data.models.map((model) => new Panel(model, $("panels"), data.series));
const shown = { attention: null, stage: "probabilities", head: Infinity, layer: Infinity, view: "map", scale: "all" };
let timer = null, frame = null;

function options(select, found) {
  select.replaceChildren(...found.map(([value, text]) => new Option(text, value)));
}

function layers() {
  return Math.max(...panels.map((panel) => panel.maps[shown.attention].layers.length));
}

function heads() {
  return Math.min(...panels.map((panel) => panel.maps[shown.attention].heads));
}

// A sentence that explains the dot, if words are cut into pieces.
function pieces() {
  const { queries, keys } = panels[0].maps[shown.attention];
  return [...queries, ...keys].some((word) => word.length > 1 && word.endsWith("·")) ? " A dot ends a piece of a word that continues." : "";
}

// A sentence that explains the blocks of steps, if a series is long.
function blocks() {
  const { keys } = panels[0].maps[shown.attention];
  return data.series && keys[0] !== "1" ? ` Entries are means over blocks of steps: ${keys[0]}, ${keys[1]} and so on.` : "";
}

function draw(from, part) {
  for (const panel of panels) panel.draw({ ...shown, head: shown.head >= heads() ? panel.maps[shown.attention].heads : shown.head }, from, part);
}

// Sets the controls to the state, and draws the panels.
function update() {
  cancelAnimationFrame(frame);
  const count = heads();
  options($("head"), [...Array.from({ length: count }, (_, head) => [head, `${head + 1}`]), [count, "mean"]]);
  shown.head = Math.min(shown.head, count);
  shown.layer = Math.min(shown.layer, layers() - 1);
  for (const name of ["attention", "stage", "view", "scale", "head"]) $(name).value = shown[name];
  $("layer").max = layers();
  $("layer").value = shown.layer + 1;
  $("number").textContent = `${shown.layer + 1} of ${layers()}`;
  const [queries, keys] = AXES[shown.attention];
  $("about").textContent =
    shown.view === "map"
      ? `Rows: ${queries}. Columns: ${keys}.${pieces()}${blocks()}`
      : `Left: ${queries}. Right: ${keys}. The stronger a line, the larger the value.${pieces()}${blocks()}`;
  draw();
}

function set(changes) {
  Object.assign(shown, changes);
  update();
}

// Goes to a layer; the map changes gradually unless the reader prefers reduced motion.
function change(layer) {
  const from = shown.layer;
  set({ layer });
  if (from === layer || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const began = performance.now();
  const advance = (now) => {
    const part = Math.min(1, (now - began) / (1000 * CHANGING));
    draw(from, part);
    if (part < 1) frame = requestAnimationFrame(advance);
  };
  frame = requestAnimationFrame(advance);
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => change((shown.layer + 1) % layers()), 1000 * SECONDS) : null;
  $("play").textContent = on ? "Stop" : "Play";
  $("play").setAttribute("aria-pressed", String(on));
  if (on && shown.layer === layers() - 1) change(0);
}

const KEYS = {
  ",": () => change(Math.max(0, shown.layer - 1)),
  ".": () => change(Math.min(layers() - 1, shown.layer + 1)),
  "[": () => set({ head: Math.max(0, shown.head - 1) }),
  "]": () => set({ head: Math.min(heads(), shown.head + 1) }),
  p: () => play(timer === null),
  v: () => set({ view: shown.view === "map" ? "links" : "map" }),
};

function start() {
  const kinds = Object.keys(data.models[0].attentions);
  const differ = new Set(data.models.flatMap((model) => Object.values(model.attentions).flatMap((found) => found.layers.flatMap(Object.keys))));
  options($("attention"), kinds.map((kind) => [kind, TITLES[kind]]));
  options($("stage"), STAGES.filter((stage) => differ.has(stage)).map((stage) => [stage, STAGE_TITLES[stage]]));
  $("attention").addEventListener("change", (event) => set({ attention: event.target.value }));
  for (const name of ["stage", "view", "scale"]) $(name).addEventListener("change", (event) => set({ [name]: event.target.value }));
  $("head").addEventListener("change", (event) => set({ head: Number(event.target.value) }));
  $("layer").addEventListener("input", (event) => change(Number(event.target.value) - 1));
  $("play").addEventListener("click", () => play(timer === null));
  $("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const root = document.documentElement;
    root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    draw();
  });
  $("panels").addEventListener("pointed", (event) => {
    for (const panel of panels) {
      if (event.detail.keep) panel.picked = event.detail.entry;
      panel.hovered = event.detail.keep ? null : event.detail.entry;
    }
    draw();
  });
  document.addEventListener("keydown", (event) => {
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.key.length === 1 && event.target.type !== "range";
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  window.addEventListener("resize", () => draw());
  if (data.series) listChannels($("channels"), data.series);
  if (window.parent !== window) fitFrame();
  set({ attention: kinds[kinds.length - 1] });
}

// In a frame of another page, reports the height of the content to that page.
function fitFrame() {
  document.documentElement.classList.add("framed");
  const report = () => window.parent.postMessage({ height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  new ResizeObserver(report).observe(document.body);
}

start();
