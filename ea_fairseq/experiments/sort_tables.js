"use strict";

// A click on a column's heading sorts the table: numbers by size, cells without one last.
const UNITS = { k: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12 };

// The number that a cell begins with, or null.
function numberOf(text) {
  const found = text.replaceAll(",", "").replace("\u2212", "-").match(/^[<>+]*(-?\d+(?:\.\d+)?)\s?([kMGBT]?)\b/);
  return found && Number(found[1]) * (UNITS[found[2]] || 1);
}

function compare(one, other, text) {
  if (text) return one.localeCompare(other, "en", { numeric: true });
  const [first, second] = [numberOf(one), numberOf(other)];
  return first === null || second === null ? (first === null) - (second === null) : first - second;
}

function sort(table, column) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const text = column === 0;
  const before = headings[column].getAttribute("aria-sort");
  const ascending = before ? before === "descending" : text; // numbers: the largest first
  const cell = (row) => row.cells[column].textContent;
  const lacks = (row) => !text && numberOf(cell(row)) === null;
  const rows = [...body.rows].sort((one, other) => {
    if (lacks(one) || lacks(other)) return lacks(one) - lacks(other);
    return (ascending ? 1 : -1) * compare(cell(one), cell(other), text);
  });
  body.append(...rows);
  for (const heading of headings) heading.removeAttribute("aria-sort");
  headings[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
}

for (const table of document.querySelectorAll("table")) {
  if (!table.tHead || !table.tBodies.length) continue;
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, column));
    heading.append(button);
  });
}
