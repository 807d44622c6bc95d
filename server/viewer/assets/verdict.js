// One line that says what became of an episode and, where it went wrong, what went wrong and where.
const ENDS = { budget: "the budget was spent", no_tool_call: "two turns in a row called no tool", give_up: "the agent gave up", closed: "it was closed before its end" };

function failedComponents(detail) {
  const counts = new Map(detail.tests.counts);
  return detail.components.filter(([, value]) => value !== 1).map(([name, value]) => {
    const failed = counts.get(name);
    return html`<span class="fact bad"><code>${name}</code> ${short(value)}${failed ? `, ${count(failed, "test")} not passed` : ""}</span> `;
  });
}

function Verdict({ row, detail }) {
  if (detail.origin || row.running) return null;
  if (row.void) return html`<p class="verdict cause"><strong>Not valid</strong> ${whole(detail.cause) ? html`<${Txt} text=${detail.cause} />` : ENDS[row.end] || "the grade does not count"}</p>`;
  if (row.value === null) return html`<p class="verdict"><strong>Not graded</strong></p>`;
  const confirmed = detail.findings.map((finding, place) => ({ ...finding, place })).filter((finding) => finding.severity === "confirmed");
  const open = detail.turns.filter((turn) => turn.errors.some((error) => error.recovered === false)).map((turn) => [turn.n, turn.errors.find((error) => error.recovered === false).kind]);
  const [last] = open.slice(-1);
  return html`<p class="verdict"><strong class=${row.value === 1 ? "good" : "bad"}>${row.value === 1 ? "Solved" : "Not solved"}</strong> ${failedComponents(detail)}
    ${row.value === 1 || !ENDS[row.end] ? null : html`<span class="fact bad">${ENDS[row.end]}</span> `}
    ${confirmed.slice(0, 3).map((finding) => html`<a class="fact bad" href=${address(["e", row.id, "f", finding.place])}>confirmed <bdi>${finding.exploit}</bdi>${finding.turn === null ? " in the diff" : ` at turn ${finding.turn}`}</a> `)}
    ${last ? html`<a class="fact" href=${turnHref(row, last[0])}>${open.length === 1 ? "" : `${open.length} errors not recovered, the last: `}<code>${last[1]}</code> at turn ${last[0]}${open.length === 1 ? ", not recovered" : ""}</a>` : null}</p>`;
}
