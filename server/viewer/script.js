"use strict";
// Without this script the page is whole, only not filtered.
const form = document.getElementById("filters");
const rows = [...document.querySelectorAll("tr[data-episode]")];
const articles = new Map([...document.querySelectorAll("article")].map((a) => [a.dataset.episode, a]));

function wanted(row) {
  const { agent, reward, kind, task } = form.elements;
  const kinds = row.dataset.kinds.split(" ").filter(Boolean);
  return (!agent.value || row.dataset.agent === agent.value)
    && (!reward.value || row.dataset.reward === reward.value)
    && (!kind.value || (kind.value === "*" ? kinds.length > 0 : kinds.includes(kind.value)))
    && row.dataset.task.toLowerCase().includes(task.value.trim().toLowerCase());
}

function filter() {
  let count = 0;
  for (const row of rows) {
    const shown = wanted(row);
    count += shown;
    row.hidden = articles.get(row.dataset.episode).hidden = !shown;
  }
  form.elements.shown.value = `${count} of ${rows.length} shown`;
}

form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
filter();

for (const button of document.querySelectorAll("button.open")) {
  const turns = [...button.closest("article").querySelectorAll(".turn > details")];
  button.hidden = turns.length === 0;
  button.addEventListener("click", () => {
    const open = !turns.every((turn) => turn.open);
    for (const turn of turns) turn.open = open;
    button.textContent = open ? "close all" : "open all";
    button.setAttribute("aria-expanded", String(open));
  });
}
