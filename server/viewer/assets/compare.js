// Two episodes of one task, turn beside turn, from the first turn in which they differ.
const moveOf = (turn) => JSON.stringify([whole(turn.text), whole(turn.thought), turn.calls.map((call) => [call.name, call.args, call.raw])]);

function commonTurns(one, other) {
  const most = Math.min(one.turns.length, other.turns.length);
  let same = 0;
  while (same < most && moveOf(one.turns[same]) === moveOf(other.turns[same])) same += 1;
  return same;
}

function Side({ row, detail, index }) {
  return html`<div class="side"><h3><a href=${address(["e", row.id])}><span class="dim">${row.number}</span> <bdi>${row.agent}</bdi></a></h3>
    <p class="facts"><span>reward <${Score} row=${row} /></span> <span>end: ${row.end || "none"}</span> <span>${count(row.turns, "turn")}</span> <span>${count(row.errors, "error turn")}</span> ${row.findings.length ? html`<span>${count(row.findings.length, "finding")}</span>` : null} ${row.tokens ? html`<span>${usageOf(row)}</span>` : null}</p>
    ${index.runs.length > 1 ? html`<p class="dim" title=${index.runs[row.run]}>in ${index.names[row.run]}</p>` : null}
    ${row.fork ? html`<p class="dim">${row.with ? html`with the hint <q><bdi>${row.with}</bdi></q>` : "without a hint"}, from turn ${row.fork[1]}</p>` : null}
    <p>${(detail?.components || []).map(([name, value]) => html`<span class="fact ${value === 1 ? "good" : "bad"}"><code>${name}</code> ${short(value)}</span> `)}</p></div>`;
}

function Cell({ row, turn, wide, n }) {
  if (!turn) return html`<div class="cell none">${n === row.turns ? html`<p class="dim ended">end: ${row.end || "none"}, reward <${Score} row=${row} /></p>` : null}</div>`;
  return html`<div class="cell${turn.errors.length ? " erred" : ""}"><p><a class="n" href=${turnHref(row, turn.n)}>${turn.n}</a> <span class="status ${turn.failed ? "bad" : "ok"}"><bdi>${turn.outcome}</bdi></span></p>
    ${whole(turn.text) ? html`<p><bdi>${whole(turn.text).slice(0, wide ? 2000 : 240)}</bdi></p>` : null}
    ${turn.calls.map((call) => html`<p class="does"><code><b>${call.name || "(no name)"}</b> ${wide ? null : call.brief}</code></p>${wide ? html`<${Call} call=${call} />` : null}`)}
    ${turn.errors.map((error) => html`<${ErrorNote} error=${error} />`)}</div>`;
}

function Compare({ ids, index, keys }) {
  const rows = ids.map((id) => index.rows.find((row) => row.id === id));
  const [left, right] = [useDetail(rows[0]), useDetail(rows[1])];
  const [wide, setWide] = useState(false);
  const [all, setAll] = useState(false);
  const [at, setAt] = useState(0);
  const move = (to) => { setAt(to); document.getElementById(`pair-${to}`)?.scrollIntoView({ block: "center" }); };
  keys.current = { u: () => history.back(), o: () => setWide(!wide), a: () => setAll(!all), s: () => goQuietly(["c", ids[1], ids[0]]), j: () => move(at + 1), k: () => move(Math.max(0, at - 1)) };
  if (rows.some((row) => !row)) return html`<main><p class="empty">One of these episodes is not here. <a href="#/">All episodes</a></p></main>`;
  const ready = left.detail && right.detail;
  const same = ready ? commonTurns(left.detail, right.detail) : 0;
  const length = ready ? Math.max(left.detail.turns.length, right.detail.turns.length) : 0;
  // Where nothing differs, all is shown.
  const first = all || same === length ? 0 : same;
  const other = rows[0].task !== rows[1].task;
  return html`<main class="compare"><header><p class="crumbs"><a href="#/">Episodes</a> <span class="dim">/ comparison</span></p><h2><bdi>${rows[0].task}</bdi></h2>
      ${other ? html`<p class="cause">The two episodes play different tasks: <bdi>${rows[1].task}</bdi></p>` : null}
      <p class="bar"><button type="button" onClick=${() => setWide(!wide)}>${wide ? "show briefly" : "show in full"}</button> <button type="button" onClick=${() => goQuietly(["c", ids[1], ids[0]])}>swap sides</button></p></header>
    <div class="pair heads">${rows.map((row, n) => html`<${Side} row=${row} detail=${[left, right][n].detail} index=${index} />`)}</div>
    ${ready ? html`<p class="shared">${same === length ? `The two played the same ${count(length, "turn")}.` : same ? html`The first ${same === 1 ? "turn is" : `${same} turns are`} the same.` : "They differ from the first turn on."} ${same && same < length ? html`<button type="button" onClick=${() => setAll(!all)}>${all ? "hide" : "show"}</button>` : null}</p>
      <div class="pairs">${Array.from({ length: length - first }, (_, n) => first + n).map((n) => html`<div class="pair${n === at ? " current" : ""}${n === same ? " divides" : ""}" id="pair-${n}"><${Cell} row=${rows[0]} turn=${left.detail.turns[n]} n=${n} wide=${wide} /><${Cell} row=${rows[1]} turn=${right.detail.turns[n]} n=${n} wide=${wide} /></div>`)}</div>
      <div class="pair">${[left, right].map(({ detail }, n) => html`<div class="cell"><${Tests} tests=${detail.tests} /><${Diff} files=${detail.diff} id="diff-${n}" title="Final diff" /></div>`)}</div>`
    : html`<p class="dim">${left.problem || right.problem || "Loading\u2026"}</p>`}
  </main>`;
}
