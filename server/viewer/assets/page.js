// The page of an episode: it loads the episode, follows the address, and answers the keys.
function useDetail(row) {
  const [state, setState] = useState({ id: "", detail: undefined, problem: "" });
  const version = row ? `${row.id} ${row.turns} ${row.end}` : "";
  useEffect(() => {
    if (!row) return undefined;
    let current = true;
    source.episode(row).then(
      (detail) => current && setState({ id: row.id, detail, problem: "" }),
      (error) => current && setState({ id: row.id, detail: null, problem: error.message }),
    );
    return () => { current = false; };
  }, [version]);
  return row && state.id === row.id ? state : { id: "", detail: undefined, problem: "" };
}

function Siblings({ row, index, picked, pick }) {
  const others = index.rows.filter((other) => other.task === row.task && other.id !== row.id);
  const chosen = (event) => { if (event.target.value) go(["c", row.id, event.target.value]); };
  return html`<span class="siblings">${others.length ? html`<label>compare with <select onChange=${chosen} value=""><option value="">another episode of this task</option>
    ${others.slice(0, 300).map((other) => html`<option value=${other.id}>${other.number} ${other.agent}, reward ${other.value === null ? "none" : short(other.value)}${other.fork ? `, fork at ${other.fork[1]}` : ""}${index.runs.length > 1 ? `, ${index.names[other.run]}` : ""}</option>`)}</select></label>` : null}
    ${picked && picked !== row.id ? html` <a class="button" href=${address(["c", picked, row.id])}>compare with the marked one</a>` : null}
    <button type="button" aria-pressed=${picked === row.id} onClick=${() => pick(row.id)} title="mark (x), then compare another episode with it (c)">${picked === row.id ? "marked for comparison" : "mark for comparison"}</button></span>`;
}

// The beginning of a text, beside the head of the part that holds it.
const peek = (text) => whole(text).slice(0, 300).replace(/\s+/g, " ");

// Returns which turn an address names, and the finding that leads there.
function target(args, detail) {
  const [kind, value] = args;
  const number = Number(value);
  const finding = kind === "f" && detail ? detail.findings[number] : null;
  return { turn: finding ? finding.turn : kind === "t" ? number : null, finding, place: finding ? number : null };
}

function Episode({ id, args, index, picked, pick, keys, list }) {
  const row = index.rows.find((one) => one.id === id);
  const { detail, problem } = useDetail(row);
  const [open, setOpen] = useState(new Set());
  const [current, setCurrent] = useState(0);
  const [fork, setFork] = useState(null);
  const at = useRef(0); // the current turn, also between two keys that come faster than the page is drawn
  const aim = target(args, detail);
  const needle = useMemo(() => needleOf(aim.finding, detail), [aim.finding, detail]);
  useEffect(() => { setOpen(new Set()); setCurrent(0); at.current = 0; setFork(null); window.scrollTo(0, 0); }, [id]);
  useEffect(() => {
    // The erring turns of a short episode are open: their text stands beside their hints.
    if (detail && row.turns <= 60) setOpen(new Set(detail.turns.filter((turn) => turn.errors.length || turn.findings.length).map((turn) => turn.n)));
  }, [detail && id]);
  useEffect(() => {
    if (!detail || !args.length) return;
    if (aim.turn !== null && detail.turns.some((turn) => turn.n === aim.turn)) {
      setCurrent(aim.turn);
      at.current = aim.turn;
      setOpen((before) => new Set(before).add(aim.turn));
    }
    requestAnimationFrame(() => {
      const place = document.querySelector("mark") || document.getElementById(aim.finding && aim.turn === null ? "diff" : `turn-${aim.turn}`);
      place?.scrollIntoView({ block: aim.finding ? "center" : "start" });
    });
  }, [detail && id, args.join("/")]);
  const toggle = (number) => { setCurrent(number); at.current = number; setOpen((before) => { const after = new Set(before); if (!after.delete(number)) after.add(number); return after; }); };
  // Keys replace the address, so that one step back leaves the episode.
  const move = (number) => { at.current = number; goQuietly(["e", id, "t", number]); };
  const all = detail && open.size >= detail.turns.length;
  const step = (by) => {
    const order = (list.order?.length ? list.order : index.rows);
    const place = order.findIndex((one) => one.id === route().parts[1]);
    const next = order[place + by];
    if (next) go(["e", next.id]);
  };
  const nextOf = (has, by) => {
    const candidates = detail.turns.filter(has).map((turn) => turn.n).filter((n) => (by > 0 ? n > at.current : n < at.current));
    if (candidates.length) move(by > 0 ? candidates[0] : candidates[candidates.length - 1]);
  };
  const always = { x: () => pick(id), c: () => picked && picked !== id && go(["c", picked, id]), "]": () => step(1), "[": () => step(-1), u: () => go([], list.query) };
  keys.current = detail ? {
    j: () => move(Math.min(at.current + 1, detail.turns.length - 1)), k: () => move(Math.max(at.current - 1, 0)),
    g: () => move(0), G: () => move(detail.turns.length - 1), Enter: () => toggle(at.current), o: () => toggle(at.current),
    e: () => nextOf((turn) => turn.errors.length, 1), E: () => nextOf((turn) => turn.errors.length, -1),
    n: () => {
      const { place } = target(route().parts.slice(2), detail);
      if (detail.findings.length) goQuietly(["e", id, "f", place === null ? 0 : (place + 1) % detail.findings.length]);
    },
    a: () => setOpen(all ? new Set() : new Set(detail.turns.map((turn) => turn.n))),
    f: () => setFork(at.current), ...always,
  } : always;
  if (!row) return html`<main><p class="empty">There is no episode ${id} here. <a href="#/">All episodes</a></p></main>`;
  return html`<main class="episode">
    <header><p class="crumbs"><a href=${address([], list.query)}>Episodes</a> <span class="dim">/</span> <a href=${address([], { run: row.run })} title=${index.runs[row.run]}>${index.names[row.run]}</a> <span class="steps"><button type="button" onClick=${() => step(-1)} title="previous ([)">\u2190</button><button type="button" onClick=${() => step(1)} title="next (])">\u2192</button></span></p>
      <h2><span class="dim">Episode ${row.number}</span> <bdi>${row.agent}</bdi> <span class="dim">on</span> <bdi>${row.task}</bdi></h2>
      <p class="facts"><span>reward <${Score} row=${row} /></span> <span>end: ${row.end || "none"}</span> <span>${count(row.turns, "turn")}</span> <span>${count(row.errors, "error turn")}${row.errors ? `, ${row.recovered} recovered` : ""}</span>${row.faults ? html` <span>${count(row.faults, "injected fault")}</span>` : null}${row.generator ? html` <span>${row.generator}</span>` : null}${row.step !== null ? html` <a href=${address(["train", row.run], { step: row.step })}>step ${row.step}</a>` : null} <span>${duration(row.seconds)}</span>${row.tokens ? html` <span>${usageOf(row)}</span>` : null}</p>
      <${Siblings} row=${row} index=${index} picked=${picked} pick=${pick} /></header>
    ${detail === undefined ? html`<p class="dim">Loading\u2026</p>` : null}
    ${detail === null ? html`<p class="empty">${problem || "The turns of this episode did not fit into this page; `etude view` shows them."}</p>` : null}
    ${detail ? html`
      <${Verdict} row=${row} detail=${detail} />
      <${Timeline} row=${row} detail=${detail} current=${current} /><${Facts} row=${row} detail=${detail} />
      ${detail.findings.length ? html`<section><h3>Findings</h3><div class="findings">${detail.findings.map((finding, place) => html`<${FindingNote} finding=${finding} row=${row} place=${place} current=${place === aim.place} />`)}</div></section>` : null}
      <details class="prompt"><summary>Prompt <span class="dim peek"><bdi>${peek(detail.prompt)}</bdi></span></summary><${Block} text=${detail.prompt} kind="prose" /></details>
      ${detail.settings.length ? html`<details class="prompt"><summary>Settings <span class="dim peek"><bdi>${detail.settings.map(([name, value]) => `${name} ${value}`).join(", ")}</bdi></span></summary><dl class="arguments">${detail.settings.map(([name, value]) => html`<div><dt><code>${name}</code></dt><dd><bdi>${value}</bdi></dd></div>`)}</dl></details>` : null}
      <div class="bar"><h3>Turns</h3><button type="button" onClick=${keys.current.a}>${all ? "close all" : "open all"}</button></div>
      <ol class="turns">${detail.turns.map((turn) => html`${turn.n === fork ? html`<li key="fork" class="forking"><${ForkPanel} row=${row} detail=${detail} turn=${fork} index=${index} close=${() => setFork(null)} /></li>` : null}
        <${Turn} key=${turn.n} turn=${turn} row=${row} detail=${detail} open=${open.has(turn.n)} current=${turn.n === current} toggle=${toggle} needle=${aim.turn === turn.n ? needle : ""} forkAt=${setFork} />`)}</ol>
      ${detail.left_out ? html`<p class="dim">${count(detail.left_out, "more turn")} ${detail.left_out === 1 ? "is" : "are"} in the run and not on this page.</p>` : null}
      <${Tests} tests=${detail.tests} /><${Diff} files=${detail.diff} id="diff" title="Final diff" leftOut=${detail.diff_left_out} needle=${aim.finding && aim.turn === null ? needle : ""} />
      <${Diff} files=${detail.oracle} id="oracle" title="From the reference solution to the agent's files" note="The agent's files are equal to those of the reference solution." />` : null}
  </main>`;
}
