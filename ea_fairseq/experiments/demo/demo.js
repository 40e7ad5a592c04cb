"use strict";

const $ = (name) => document.getElementById(name);
const NAMES = new Intl.DisplayNames("en", { type: "language", fallback: "code" });

function element(kind, text, className = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = className;
  return made;
}

function show({ translations, attention }) {
  const sections = translations.map(({ model, hypotheses }) => {
    const section = element("div", "", "model"), list = element("ol", "");
    for (const { text, score } of hypotheses) {
      const item = element("li", "");
      item.append(element("span", text), element("span", score.toFixed(3), "score"));
      list.append(item);
    }
    section.append(element("h2", model), list);
    return section;
  });
  $("translations").replaceChildren(...sections, element("p", "Best of a beam of five; scores are mean log-probabilities of a token.", "quiet"));
  $("attention").hidden = false;
  $("attention").src = attention;
}

async function translate(text) {
  const answer = await fetch("/translate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text }),
  });
  const found = await answer.json().catch(() => ({ error: `The server says ${answer.status}: try again.` }));
  if (!answer.ok) throw new Error(found.error);
  return found;
}

$("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("translate").disabled = true;
  $("error").hidden = true;
  $("state").textContent = "translating …";
  try {
    show(await translate($("text").value));
  } catch (error) {
    $("error").textContent = error instanceof TypeError ? "The demo has ended: start it again." : error.message;
    $("error").hidden = false;
  }
  $("state").textContent = "";
  $("translate").disabled = false;
});

$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});

fetch("/models")
  .then((answer) => answer.json())
  .then(({ models, languages, most, example }) => {
    $("languages").textContent = `${languages.map((code) => NAMES.of(code)).join(" to ")}, by ${models.join(" and ")}`;
    $("text").maxLength = most;
    $("text").value = example;
    $("text").focus();
  });
