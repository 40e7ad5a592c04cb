"use strict";

const $ = (name) => document.getElementById(name);
const data = JSON.parse($("data").textContent);
const SIZE = 320; // pixels of a canvas's longer side
const ATTENDED = "255, 120, 0", FRAME = "#0b62c4";
const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

// The image, drawn once in its own size.
const picture = Object.assign(document.createElement("canvas"), { width: data.width, height: data.height });
const pixels = new ImageData(data.width, data.height), colours = bytes(data.pixels);
for (let i = 0; i < data.width * data.height; i++) {
  pixels.data.set([...colours.subarray(3 * i, 3 * i + 3), 255], 4 * i);
}
picture.getContext("2d").putImageData(pixels, 0, 0);

const place = { x: 0.5, y: 0.5 }; // of the query, as fractions of the image's sides
const layers = []; // each with its canvas, its maps and its grid

function queryOf(layer) {
  if ($("leading").checked && layer.leading) return 0;
  const [row, column] = [Math.floor(place.y * layer.rows), Math.floor(place.x * layer.columns)];
  return layer.leading + row * layer.columns + column;
}

// Probabilities of the keys, for the chosen query and head.
function attended(layer) {
  const tokens = layer.leading + layer.rows * layer.columns;
  const head = $("head").value === "mean" ? layer.heads : Math.min(Number($("head").value), layer.heads - 1);
  const start = (head * tokens + queryOf(layer)) * tokens;
  return Array.from(layer.numbers.subarray(start, start + tokens), (number) => number / 10 ** layer.digits);
}

function draw() {
  const found = layers.map(attended);
  const most = Math.max(...found.flat());
  layers.forEach((layer, i) => {
    const { canvas, rows, columns, leading } = layer, context = canvas.getContext("2d");
    const [width, height] = [canvas.width / columns, canvas.height / rows];
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const highest = $("scale").value === "all" ? most : Math.max(...found[i].slice(leading));
    for (let key = leading; key < found[i].length; key++) {
      const [row, column] = [Math.floor((key - leading) / columns), (key - leading) % columns];
      context.fillStyle = `rgba(${ATTENDED}, ${highest ? (0.9 * found[i][key]) / highest : 0})`;
      context.fillRect(column * width, row * height, width, height);
    }
    const query = queryOf(layer) - leading;
    if (query >= 0) {
      context.strokeStyle = FRAME;
      context.lineWidth = 4;
      context.strokeRect((query % columns) * width + 2, Math.floor(query / columns) * height + 2, width - 4, height - 4);
    }
    const own = Math.max(...found[i].slice(leading)).toFixed(3);
    layer.caption.textContent = `layer ${layer.number}, highest ${own}${leading ? `, class token ${found[i][0].toFixed(3)}` : ""}`;
  });
  const row = Math.floor(place.y * data.height) + 1, column = Math.floor(place.x * data.width) + 1;
  $("about").textContent = $("leading").checked ? "Query: the class token" : `Query: row ${row}, column ${column} of ${data.height} x ${data.width} pixels`;
}

function move(x, y) {
  place.x = Math.min(Math.max(x, 0), 1 - 1e-6);
  place.y = Math.min(Math.max(y, 0), 1 - 1e-6);
  $("leading").checked = false;
  draw();
}

function add(model, layer, number, list) {
  const scale = SIZE / Math.max(data.width, data.height);
  const canvas = Object.assign(document.createElement("canvas"), { width: data.width * scale, height: data.height * scale, tabIndex: 0 });
  const caption = document.createElement("figcaption"), figure = document.createElement("figure");
  canvas.setAttribute("aria-label", `${model.name}, layer ${number}`);
  canvas.addEventListener("pointermove", (event) => move(event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientHeight));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    move(place.x + step[0] / layer.columns, place.y + step[1] / layer.rows);
  });
  figure.append(canvas, caption);
  list.append(figure);
  layers.push({ ...layer, canvas, caption, number, numbers: new Int16Array(bytes(layer.maps).buffer) });
}

for (const model of data.models) {
  const list = Object.assign(document.createElement("div"), { className: "layers" });
  const [title, note] = [document.createElement("h2"), document.createElement("p")];
  [title.textContent, note.textContent, note.className] = [model.name, model.note, "quiet"];
  $("models").append(title, note, list);
  model.layers.forEach((layer, index) => add(model, layer, index + 1, list));
}
const heads = Math.max(...layers.map((layer) => layer.heads));
$("head").append(new Option("mean", "mean"), ...Array.from({ length: heads }, (_, head) => new Option(head + 1, head)));
$("class-token").hidden = !layers.some((layer) => layer.leading);
for (const name of ["head", "leading", "scale"]) $(name).addEventListener("change", draw);
draw();
