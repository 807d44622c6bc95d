// The head of the list: filters, totals, runs, and what went wrong.
const distinct = (values) => [...new Set(values)].filter(Boolean).sort();

function Select({ label, name, query, options }) {
  const change = (event) => goQuietly([], { ...query, [name]: event.target.value, row: undefined });
  if (options.length < 2) return null;
  return html`<label>${label} <select name=${name} onChange=${change} value=${query[name] || ""}>
    ${options.map(([value, text]) => html`<option value=${value} selected=${(query[name] || "") === value}>${text}</option>`)}</select></label>`;
}

function Filters({ index, query, shown }) {
  const { rows, runs } = index;
  const options = useMemo(() => ({
    run: runs.map((_, place) => [String(place), index.names[place]]),
    kind: distinct(rows.flatMap((row) => row.kinds)),
    finding: distinct(rows.flatMap((row) => row.findings.map(([exploit]) => exploit))),
    generator: distinct(rows.map((row) => row.generator)),
    agent: distinct(rows.flatMap((row) => [row.agent, row.model])),
    step: distinct(rows.map((row) => row.step !== null && String(row.step))).sort((a, b) => a - b),
  }), [rows, runs]);
  const named = (values) => values.map((value) => [value, value]);
  const typed = (event) => goQuietly([], { ...query, q: event.target.value, row: undefined });
  const used = FILTERS.filter((name) => name !== "q" && query[name]).length;
  const active = used || query.q;
  const [more, setMore] = useState(false); // a phone shows the filters when they are asked for
  return html`<form class="filters${more ? " open" : ""}" id="filters" onSubmit=${(event) => event.preventDefault()}>
    <label class="wide">search <input type="search" name="q" id="search" value=${query.q || ""} onInput=${typed} placeholder="task, agent, prompt, error (/)" /></label>
    <button type="button" class="more" aria-expanded=${more} onClick=${() => setMore(!more)}>filters${used ? ` (${used})` : ""}</button>
    <${Select} label="run" name="run" query=${query} options=${[["", "all"], ...(options.run.length > 1 ? options.run : [])]} />
    <${Select} label="reward" name="reward" query=${query} options=${[["", "any"], ["full", "1"], ["less", "below 1"], ["zero", "0"], ["part", "between"], ["void", "none or not valid"], ["running", "running"]]} />
    <${Select} label="error turn" name="kind" query=${query} options=${[["", "any or none"], ["*", "any"], ["none", "none"], ...named(options.kind)]} />
    <${Select} label="finding" name="finding" query=${query} options=${options.finding.length ? [["", "any or none"], ["*", "any"], ["confirmed", "confirmed"], ["suspect", "suspect"], ...named(options.finding)] : []} />
    <${Select} label="generator" name="generator" query=${query} options=${options.generator.length ? [["", "all"], ...named(options.generator)] : []} />
    <${Select} label="agent or model" name="agent" query=${query} options=${options.agent.length > 1 ? [["", "all"], ...named(options.agent)] : []} />
    <${Select} label="step" name="step" query=${query} options=${options.step.length ? [["", "all"], ...named(options.step)] : []} />
    ${active ? html`<button type="button" onClick=${() => goQuietly([], {})}>clear</button>` : null}
    <output aria-live="polite">${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown</output>
  </form>`;
}

function totalsOf(rows) {
  const scored = rows.filter((row) => row.value !== null);
  const sum = (key) => rows.reduce((total, row) => total + key(row), 0);
  return {
    episodes: rows.length, reward: scored.length ? scored.reduce((total, row) => total + row.value, 0) / scored.length : null,
    solved: scored.filter((row) => row.value === 1).length, scored: scored.length, turns: sum((row) => row.turns), errors: sum((row) => row.errors),
    hints: sum((row) => row.hints), findings: sum((row) => row.findings.length), void: sum((row) => (row.void && !row.running ? 1 : 0)), tokens: sum((row) => (row.tokens ? row.tokens[0] + row.tokens[1] : 0)), usd: sum((row) => row.usd || 0),
  };
}

function Totals({ rows }) {
  const totals = useMemo(() => totalsOf(rows), [rows]);
  const shown = [["episodes", totals.episodes], ["mean reward", totals.reward === null ? "none" : short(totals.reward)], ["solved", totals.scored ? `${totals.solved.toLocaleString("en")} of ${totals.scored.toLocaleString("en")}` : "none"],
    ["turns", totals.turns], ["error turns", totals.errors], ["hints", totals.hints], ["findings", totals.findings], ...(totals.void ? [["not valid", totals.void]] : []), ...(totals.tokens ? [["tokens", totals.tokens]] : []), ...(totals.usd ? [["cost", `$${totals.usd < 0.01 ? short(totals.usd) : totals.usd.toFixed(2)}`]] : [])];
  return html`<dl class="totals">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value.toLocaleString("en")}</dd></div>`)}</dl>`;
}

function Runs({ index, query }) {
  const totals = useMemo(() => {
    const parts = index.runs.map(() => []);
    for (const row of index.rows) parts[row.run]?.push(row);
    return parts.map(totalsOf);
  }, [index.rows, index.runs]);
  if (index.runs.length < 2 && !index.training.length) return null;
  const training = new Map(index.training.map((item) => [item.run, item]));
  return html`<section class="runs" aria-label="Runs"><table><thead><tr><th>run</th><th class="num">episodes</th><th class="num">mean reward</th><th class="num">error turns</th><th class="num">findings</th><th></th></tr></thead><tbody>
    ${index.runs.map((name, place) => html`<tr class=${query.run === String(place) ? "chosen" : ""}><td><a title=${name} href=${address([], { run: query.run === String(place) ? "" : place })}><${Name}>${index.names[place]}</></a></td>
      <td class="num">${totals[place].episodes.toLocaleString("en")}</td><td class="num">${short(totals[place].reward)}</td><td class="num">${totals[place].errors}</td><td class="num">${totals[place].findings}</td>
      <td>${training.has(place) ? html`<a href=${address(["train", place])}>curves</a>` : null}</td></tr>`)}</tbody></table></section>`;
}

function Kinds({ rows, query }) {
  const counts = useMemo(() => {
    const result = new Map();
    for (const row of rows) for (const kind of row.kinds) result.set(kind, (result.get(kind) || 0) + 1);
    return [...result].sort((a, b) => b[1] - a[1]);
  }, [rows]);
  if (!counts.length) return null;
  return html`<p class="kinds"><span class="dim">episodes with the error</span> ${counts.map(([kind, number]) => html`<a class=${query.kind === kind ? "chosen" : ""}
    href=${address([], { ...query, kind: query.kind === kind ? "" : kind, row: undefined })}><code>${kind}</code> ${number.toLocaleString("en")}</a> `)}</p>`;
}
