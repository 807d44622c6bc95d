// The rows of the list: a window on them moves with the scroll bar.
const OVERSCAN = 12;
const isNarrow = () => window.matchMedia("(max-width: 44rem)").matches;
const rowHeight = () => (isNarrow() ? 54 : 29);
// Name for sorting (empty: not sorted by it), class, head, and what it means.
const COLUMNS = [
  ["no", "no", "no.", "number of the episode in its run, from 0"], ["", "run", "run", "run that holds the episode"], ["agent", "agent", "agent", "agent or model that played"], ["task", "task", "task", "task that was played"],
  ["reward", "reward", "reward", "reward of the episode, from 0 to 1"], ["turns", "turns", "turns", "number of turns"], ["", "course", "turn by turn", "one bar a turn, from the first to the last; red: error turn, yellow: turn with a fault that was injected"],
  ["errors", "errors", "errors / recovered", "error turns, and how many of them were recovered"], ["findings", "findings", "findings", "what monitors found; red: confirmed"], ["", "end", "end", "how the episode ended"], ["time", "time", "time", "time of the environment's calls, where it was recorded"],
];

function Head({ query, withRun }) {
  const [by = "no", order = "up"] = (query.sort || "no").split("-");
  const sort = (column) => goQuietly([], { ...query, sort: column === by && order === "up" ? `${column}-down` : column, row: undefined });
  return html`<div class="row head" role="row">${COLUMNS.filter(([, name]) => name !== "run" || withRun).map(([column, name, text, about]) => html`<span role="columnheader" class="c-${name}" title=${about}>
    ${column ? html`<button type="button" onClick=${() => sort(column)}>${text}${column === by ? (order === "up" ? " \u2191" : " \u2193") : ""}</button>` : text}</span>`)}</div>`;
}

function Row({ row, run, place, top, chosen, picked, leave }) {
  // The number of a fork among the episodes of its run says nothing.
  const more = row.fork ? `fork at ${row.fork[1]}, ${row.with ? "with hint" : "no hint"}` : row.sample ? `sample ${row.sample}` : "";
  const about = [row.task, more].filter(Boolean).join(", ");
  const worst = row.findings.some((pair) => pair[1] === "confirmed") ? "bad" : "warn";
  return html`<a class="row${chosen ? " chosen" : ""}${picked ? " picked" : ""}" role="row" aria-selected=${chosen} href=${address(["e", row.id])}
      style=${{ top: `${top}px` }} data-place=${place} onClick=${() => leave(place)} tabindex=${chosen ? 0 : -1}>
    <span class="c-no num">${row.number}</span>${run === null ? null : html`<span class="c-run" title=${run}><${Name}>${run}</></span>`}<span class="c-agent" title=${row.agent}><${Name}>${row.agent}</></span>
    <span class="c-task" title=${about}><${Name}>${row.task}</>${more ? html` <i class="dim">${more}</i>` : null}</span>
    <span class="c-reward num"><${Score} row=${row} /></span><span class="c-turns num">${row.turns}</span><span class="c-course"><${Strip} marks=${row.strip} /></span>
    <span class="c-errors num${row.errors ? "" : " zero"}">${row.errors}${row.errors ? html`<i class="of"> / ${row.recovered}</i>` : null}<i class="unit"> ${row.errors === 1 ? "error" : "errors"}${row.findings.length ? `, ${count(row.findings.length, "finding")}` : ""}</i></span>
    <span class="c-findings num${row.findings.length ? ` ${worst}` : " zero"}">${row.findings.length}</span>
    <span class="c-end">${row.end}</span><span class="c-time num">${duration(row.seconds)}</span></a>`;
}

function Rows({ rows, index, query, picked, list }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const height = rowHeight();
  const at = Math.min(Number(query.row) || 0, rows.length - 1);
  useLayoutEffect(() => {
    const element = box.current;
    // The window moves in steps, so that most frames of a scroll change nothing.
    const measure = () => {
      const step = rowHeight() * (OVERSCAN / 2);
      const next = { top: Math.floor(element.scrollTop / step) * step, height: element.clientHeight };
      setView((before) => (before.top === next.top && before.height === next.height ? before : next));
    };
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    window.addEventListener("resize", measure);
    return () => { element.removeEventListener("scroll", measure); window.removeEventListener("resize", measure); };
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (at * height < element.scrollTop) element.scrollTop = at * height;
    if ((at + 2) * height > element.scrollTop + element.clientHeight) element.scrollTop = (at + 2) * height - element.clientHeight;
  }, [at, height]);
  const first = Math.max(0, Math.floor(view.top / height) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + OVERSCAN);
  list.current = { rows, at };
  const withRun = index.runs.length > 1 && !query.run;
  // The list returns to the row that was opened, also when it was clicked.
  const leave = (place) => goAndStay([], { ...query, row: place || undefined });
  return html`<div class="list${withRun ? " with-run" : ""}" role="table" aria-label="Episodes" aria-rowcount=${rows.length}><div class="scroller" ref=${box} tabindex="-1"><${Head} query=${query} withRun=${withRun} />
    <div class="window" role="rowgroup" style=${{ height: `${rows.length * height}px` }}>
    ${rows.slice(first, last).map((row, n) => html`<${Row} key=${row.id} row=${row} run=${withRun ? index.names[row.run] : null} leave=${leave} place=${first + n} top=${(first + n) * height} chosen=${first + n === at} picked=${row.id === picked} />`)}</div></div></div>`;
}

function Empty({ index }) {
  if (index.rows.length) return html`<p class="empty">No episode fits these filters. <a href="#/">Show all</a></p>`;
  if (source.live && index.waiting) return html`<p class="empty">${index.waiting}</p>`;
  if (source.live) return html`<div class="empty"><p>No episodes yet. They appear here when they end; this page need not be reloaded.</p>
    <dl><div><dt>play some</dt><dd><code>etude run --out ${quoted(index.runs[0] || "RUN")}</code></dd></div><div><dt>or read logs of another tool</dt><dd><code>etude annotate LOG --out ${quoted(index.runs[0] || "RUN")}</code></dd></div></dl></div>`;
  return html`<p class="empty">This page holds no episodes.</p>`;
}

function Home({ index, query, picked, list }) {
  const { shown, busy } = useChosen(index.rows, query);
  useEffect(() => { if (shown) list.order = shown; }, [shown]);
  if (!shown) return html`<main><p class="dim">Loading\u2026</p></main>`;
  const filtered = shown.length !== index.rows.length;
  return html`<main class="home" aria-busy=${busy}>
    ${index.tokens ? html`<${Tokens} />` : null}
    ${index.rows.length ? html`<${Totals} rows=${filtered ? shown : index.rows} />` : null}
    <${Runs} index=${index} query=${query} />
    ${index.rows.length ? html`<${Filters} index=${index} query=${query} shown=${shown} /><${Kinds} rows=${index.rows} query=${query} />` : null}
    ${shown.length ? html`<${Rows} rows=${shown} index=${index} query=${query} picked=${picked} list=${list} />` : html`<${Empty} index=${index} />`}
  </main>`;
}

// On a served environment, the tokens of sessions open their episodes.
function Tokens() {
  const use = (event) => { event.preventDefault(); source.useTokens(event.target.elements.tokens.value.trim()); };
  return html`<form class="tokens" onSubmit=${use}><label>session tokens <input name="tokens" type="password" autocomplete="off" value=${source.tokens()}
    placeholder="from state, separated by spaces" /></label> <button>show</button> <span class="dim">A token opens the episodes of its session. It stays in this tab.</span></form>`;
}
