// The rows of the list: a window on them moves with the scroll bar.
const OVERSCAN = 12;
const isNarrow = () => window.matchMedia("(max-width: 44rem)").matches;
const rowHeight = () => (isNarrow() ? 54 : 29);
const COLUMNS = [["no", "no."], ["agent", "agent"], ["task", "task"], ["reward", "reward"], ["turns", "turns"], ["", "course"], ["errors", "errors / recovered"], ["findings", "findings"], ["", "end"], ["time", "time"]];

function Head({ query }) {
  const [name = "no", order = "up"] = (query.sort || "no").split("-");
  const sort = (column) => goQuietly([], { ...query, sort: column === name && order === "up" ? `${column}-down` : column, row: undefined });
  return html`<div class="row head" role="row">${COLUMNS.map(([column, text]) => html`<span role="columnheader" class="c-${column || text}">
    ${column ? html`<button type="button" onClick=${() => sort(column)}>${text}${column === name ? (order === "up" ? " \u2191" : " \u2193") : ""}</button>` : text}</span>`)}</div>`;
}

function Row({ row, place, top, chosen, picked }) {
  const worst = row.findings.some((pair) => pair[1] === "confirmed") ? "bad" : "warn";
  return html`<a class="row${chosen ? " chosen" : ""}${picked ? " picked" : ""}" role="row" aria-selected=${chosen} href=${address(["e", row.id])}
      style=${{ top: `${top}px` }} data-place=${place} tabindex=${chosen ? 0 : -1}>
    <span class="c-no num">${row.number}</span><span class="c-agent"><${Name}>${row.agent}</></span>
    <span class="c-task" title=${row.task}><${Name}>${row.task}</>${row.sample ? html` <i class="dim">sample ${row.sample}</i>` : null}${row.fork ? html` <i class="dim">fork at ${row.fork[1]}${row.with ? ", with hint" : ""}</i>` : null}</span>
    <span class="c-reward num"><${Score} row=${row} /></span><span class="c-turns num">${row.turns}</span><span class="c-course"><${Strip} marks=${row.strip} /></span>
    <span class="c-errors num${row.errors ? "" : " zero"}">${row.errors}${row.errors ? html`<i class="of"> / ${row.recovered}</i>` : null}<i class="unit"> ${row.errors === 1 ? "error" : "errors"}</i></span>
    <span class="c-findings num${row.findings.length ? ` ${worst}` : " zero"}">${row.findings.length}</span>
    <span class="c-end">${row.end}</span><span class="c-time num">${duration(row.seconds)}</span></a>`;
}

function Rows({ rows, query, picked, list }) {
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
  return html`<div class="list" role="table" aria-label="Episodes" aria-rowcount=${rows.length}><div class="scroller" ref=${box} tabindex="-1"><${Head} query=${query} />
    <div class="window" role="rowgroup" style=${{ height: `${rows.length * height}px` }}>
    ${rows.slice(first, last).map((row, n) => html`<${Row} key=${row.id} row=${row} place=${first + n} top=${(first + n) * height} chosen=${first + n === at} picked=${row.id === picked} />`)}</div></div></div>`;
}

function Empty({ index }) {
  if (index.rows.length) return html`<p class="empty">No episode fits these filters. <a href="#/">Show all</a></p>`;
  if (source.live) return html`<p class="empty">${index.waiting || "No episodes yet. They appear here when they end."}${index.waiting ? null : html` Play some with <code>etude run --out RUN</code>.`}</p>`;
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
    ${shown.length ? html`<${Rows} rows=${shown} query=${query} picked=${picked} list=${list} />` : html`<${Empty} index=${index} />`}
  </main>`;
}

// On a served environment, the tokens of sessions open their episodes.
function Tokens() {
  const use = (event) => { event.preventDefault(); source.useTokens(event.target.elements.tokens.value.trim()); };
  return html`<form class="tokens" onSubmit=${use}><label>session tokens <input name="tokens" type="password" autocomplete="off" value=${source.tokens()}
    placeholder="from state, separated by spaces" /></label> <button>show</button> <span class="dim">A token opens the episodes of its session. It stays in this tab.</span></form>`;
}
