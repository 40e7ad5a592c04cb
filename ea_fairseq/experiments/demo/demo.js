"use strict";

const $ = (name) => document.getElementById(name);
const NAMES = new Intl.DisplayNames("en", { type: "language", fallback: "code" });
const HIGHEST = 20000; // pixels of the frame

function element(kind, text, className = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = className;
  return made;
}

function say(place, sentence) {
  $(place).textContent = sentence;
  $(place).hidden = !sentence;
}

function show({ translations, unknown, attention }) {
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
  $("translations").replaceChildren(...sections, element("p", "The three best translations of a beam of five; scores are mean log-probabilities of a token.", "quiet"));
  say("unknown", unknown.length ? `The models have never seen ${unknown.join(", ")}: the translations are guesses.` : "");
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
  say("error", "");
  $("state").textContent = "translating …";
  try {
    show(await translate($("text").value));
  } catch (error) {
    say("error", error instanceof TypeError ? "The demo has ended: start it again." : error.message);
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

// The page in the frame reports its height, so that it needs no scrolling of its own.
window.addEventListener("message", ({ source, data }) => {
  if (source !== $("attention").contentWindow || !(data.height > 0)) return;
  $("attention").style.height = `${Math.min(data.height, HIGHEST)}px`;
});

fetch("/models")
  .then((answer) => answer.json())
  .then(({ models, languages, tag, about, examples }) => {
    const tagged = tag ? `, with the tag ${tag}` : "";
    $("languages").textContent = `${languages.map((code) => NAMES.of(code)).join(" to ")}${tagged}, by ${models.join(" and ")}`;
    say("about", about);
    for (const text of examples) {
      const button = element("button", text, "example");
      button.type = "button";
      button.addEventListener("click", () => {
        $("text").value = text;
        $("form").requestSubmit();
      });
      $("examples").append(button);
    }
    $("examples").hidden = !examples.length;
    $("text").value = examples[0] || "";
    $("text").focus();
  });
