"use strict";

const $ = (name) => document.getElementById(name);
const data = JSON.parse($("data").textContent);

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

// Words that are marked in the same way share one element.
function text(words, gold, levels) {
  const found = element("p", "text", "");
  found.dir = "auto";
  for (let start = 0, end; start < words.length; start = end) {
    for (end = start + 1; end < words.length && gold[end] === gold[start] && levels[end] === levels[start]; ) end++;
    const marks = [levels[start] > 0 ? `level-${levels[start]}` : "", gold[start] === "1" ? "gold" : ""];
    found.append(element("span", marks.join(" ").trim(), words.slice(start, end).join(" ")), " ");
  }
  return found;
}

function panel(model, number) {
  const one = data.documents[number], said = model.sources[$("source").value][number];
  const [label, probability] = Object.entries(model.predictions[number]).reduce((a, b) => (b[1] > a[1] ? b : a));
  const shown = (value) => (value === null ? "–" : value.toFixed(3));
  const quality = `AUPRC ${shown(said.auprc)}, comprehensiveness ${shown(said.comprehensiveness)}, `;
  const section = element("section", "", "");
  section.append(
    element("h2", "", model.name),
    element("p", label === one.label ? "quality" : "quality wrong", `predicts ${label}, probability ${probability.toFixed(3)}`),
    element("p", "quality", `${quality}sufficiency ${shown(said.sufficiency)}`),
    text(one.words, one.gold, said.levels),
  );
  return section;
}

function draw() {
  const number = Number($("document").value), one = data.documents[number];
  $("previous").disabled = number === 0;
  $("next").disabled = number === data.documents.length - 1;
  $("about").textContent = `Label ${one.label}, ${one.words.length} words.${one.question ? ` Question and answer: ${one.question}` : ""}`;
  $("models").className = $("gold").checked ? "" : "without-gold";
  $("models").replaceChildren(...data.models.map((model) => panel(model, number)));
}

function step(by) {
  $("document").value = Number($("document").value) + by;
  draw();
}

$("document").append(...data.documents.map((one, number) => new Option(`${number + 1}: ${one.name}`, number)));
$("source").append(...Object.keys(data.models[0].sources).map((name) => new Option(name)));
const bins = data.percents.map((percent, bin) => element("span", `level-${data.percents.length - bin}`, `best ${percent}%`));
$("levels").replaceChildren(...bins);
for (const name of ["document", "source", "gold"]) $(name).addEventListener("change", draw);
$("previous").addEventListener("click", () => step(-1));
$("next").addEventListener("click", () => step(1));
draw();
