// Fork here: continue an episode from a turn, with a hint and without, and see both.
function hintsAt(detail, turn) {
  return detail.turns.flatMap((one) => one.errors.filter((error) => error.hints.length && one.n + (error.site === "recovery" ? 1 : 0) === turn)
    .map((error) => ({ kind: error.kind, text: whole(error.hints[0].text) })));
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function commandOf(row, turn, index, hint) {
  const run = index.runs[row.run];
  return `etude fork ${quoted(run)} --episode ${row.number} --turn ${turn} --agent openai:MODEL${hint ? ` --hint ${quoted(hint)}` : ""}`;
}

// On a served environment the client that plays the episode continues it.
function callOf(row, turn) {
  return `client = etude.connect(${JSON.stringify(location.origin)})\nclient.reset(fork_of=${JSON.stringify(row.episode)}, turn=${turn}, token=TOKEN)`;
}

function Job({ job, index }) {
  const [a, b] = job.arms;
  const done = job.arms.every((arm) => arm.row);
  return html`<li>turn ${job.turn}: ${job.arms.map((arm) => html`<span class="fact ${arm.problem ? "bad" : ""}">${arm.hint ? "with the hint" : "without"}: ${arm.problem || (arm.row ? html`<a href=${address(["e", arm.row])}>reward <${Score} row=${index.rows.find((row) => row.id === arm.row) || { value: null }} /></a>` : `${arm.state}\u2026`)}</span> `)}
    ${done && b ? html`<a class="button" href=${address(["c", a.row, b.row])}>compare both</a>` : null} ${done && !b ? html`<a class="button" href=${address(["c", job.episode, a.row])}>compare with this episode</a>` : null}</li>`;
}

function ForkPanel({ row, detail, turn, index, close }) {
  const hints = hintsAt(detail, turn);
  const [hint, setHint] = useState(hints[0]?.text || "");
  const [problem, setProblem] = useState("");
  const box = useRef(null);
  useLayoutEffect(() => { box.current.scrollIntoView({ block: "nearest" }); }, [turn]);
  useEffect(() => { setHint(hintsAt(detail, turn)[0]?.text || ""); setProblem(""); }, [turn, row.id]);
  const able = source.live && index.fork;
  const jobs = (index.jobs || []).filter((job) => job.episode === row.id);
  const commands = index.tokens ? callOf(row, turn) : [...new Set([hint.trim(), ""])].map((text) => commandOf(row, turn, index, text)).join("\n");
  const start = (arms) => source.fork({ episode: row.id, turn, hints: arms }).then(() => setProblem(""), (error) => setProblem(error.message));
  return html`<section class="fork" aria-label="Fork" ref=${box}><div class="bar"><h3>Continue from turn ${turn}</h3><button type="button" onClick=${close}>close</button></div>
    <label>hint <textarea rows="3" name="hint" onInput=${(event) => setHint(event.target.value)} value=${hint} placeholder="A text that the agent reads before this turn"></textarea></label>
    ${able ? html`<p class="bar"><button type="button" disabled=${!hint.trim()} onClick=${() => start([hint, ""])}>both</button> <button type="button" disabled=${!hint.trim()} onClick=${() => start([hint])}>with the hint</button> <button type="button" onClick=${() => start([""])}>without</button> <span class="dim">played by ${index.fork.agent}${index.fork.where ? ` on ${index.fork.where}` : ""}</span></p>`
    : html`<p class="dim">${source.live ? index.fork_why || "Forks need a command here:" : html`This page is a file. Run this, with the name of a model, to continue the episode; then open the run with <code>etude view</code>:`}</p>
      <pre class="command">${commands}</pre>`}
    ${problem ? html`<p class="cause">${problem}</p>` : null}
    ${jobs.length ? html`<ul class="jobs">${jobs.map((job) => html`<${Job} job=${job} index=${index} />`)}</ul>` : null}</section>`;
}
