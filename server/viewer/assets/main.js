// The application: address, keys, theme.
const HELP = [
  ["j, k", "next and previous episode, turn, pair or step"], ["Enter, o", "open or close; in the list: open the episode"], ["/", "search"], ["g, G", "first and last"],
  ["e, E", "next and previous error turn"], ["n", "next finding, at its evidence"], ["a", "open or close all turns"], ["f", "fork at this turn"],
  ["x", "mark an episode for comparison"], ["c", "compare the marked episode with this one"], ["s", "in a comparison: swap the sides"], ["[, ]", "previous and next episode"], ["u", "up: back to the list"], ["t", "light or dark"], ["?, Esc", "open and close this help"],
];

function useRoute() {
  const [now, setNow] = useState(route());
  useEffect(() => {
    const change = () => setNow(route());
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return now;
}

function useTheme() {
  const [theme, setTheme] = useState(setting.get("theme") || "");
  useLayoutEffect(() => { if (theme) document.documentElement.dataset.theme = theme; }, [theme]);
  return () => {
    const dark = theme ? theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    const next = dark ? "light" : "dark";
    setting.set("theme", next);
    setTheme(next);
  };
}

// The address is read when a key is pressed: keys may come faster than the page is drawn.
function homeKeys(list, pick, picked) {
  const { query } = route();
  const { rows = [] } = list.current || {};
  const at = Math.min(Number(query.row) || 0, rows.length - 1);
  const move = (place) => goQuietly([], { ...query, row: Math.max(0, Math.min(rows.length - 1, place)) });
  const open = () => rows[at] && go(["e", rows[at].id]);
  return {
    j: () => move(at + 1), k: () => move(at - 1), g: () => move(0), G: () => move(rows.length - 1), Enter: open, o: open,
    x: () => rows[at] && pick(rows[at].id), c: () => picked && rows[at] && go(["c", picked, rows[at].id]),
  };
}

function Help({ close }) {
  const list = (items) => html`<dl>${items.map(([key, text]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>`;
  return html`<div class="help" role="dialog" aria-label="Help" onClick=${close}><div><section><h3>Keys</h3>${list(HELP)}</section>
    <section><h3>Lanes of an episode</h3>${list(Object.entries(LANES))}</section></div></div>`;
}

// The title holds no text of an agent.
const TITLE = document.title;
function titleOf(index, kind, args) {
  const name = (id) => { const [run, number] = (id || "").split("."); return `${number} of ${index?.names[run] ?? "?"}`; };
  if (kind === "e") return `Episode ${name(args[0])} \u2013 Etude`;
  if (kind === "c") return `Episodes ${name(args[0])} and ${name(args[1])} \u2013 Etude`;
  return kind === "train" ? `Training ${index?.names[args[0]] ?? ""} \u2013 Etude` : TITLE;
}

function App() {
  const [index, setIndex] = useState(null);
  const [problem, setProblem] = useState("");
  const [help, setHelp] = useState(false);
  const [picked, setPicked] = useState("");
  const { parts, query } = useRoute();
  const switchTheme = useTheme();
  const keys = useRef({});
  const list = useRef({ current: null, order: null, query: {} }).current;
  const pick = (id) => setPicked(picked === id ? "" : id);
  const [kind = "", ...args] = parts;
  useEffect(() => { source.start((next) => setIndex({ ...next, ...namesOf(next.runs) })).catch((error) => setProblem(error.message)); }, []);
  if (!kind) list.query = query;
  useEffect(() => { document.title = titleOf(index, kind, args); }, [index, kind, args.join("/")]);
  const shared = { index, keys, list, picked, pick };
  // Before the page is painted: a key may follow at once.
  useLayoutEffect(() => {
    const press = (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === "Escape") { setHelp(false); event.target.blur?.(); return; }
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" && /^(A|BUTTON|SUMMARY)$/.test(event.target.tagName)) return;
      const search = () => {
        const box = document.getElementById("search");
        if (box) { box.focus(); return; }
        go([], list.query);
        requestAnimationFrame(() => document.getElementById("search")?.focus());
      };
      const everywhere = { "?": () => setHelp((shown) => !shown), t: switchTheme, "/": search };
      const here = kind ? keys.current : homeKeys(list, pick, picked);
      const action = everywhere[event.key] || here[event.key];
      if (action) { event.preventDefault(); action(); }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
  const body = () => {
    if (problem) return html`<main><p class="empty">This page cannot be shown: ${problem}</p></main>`;
    if (!index) return html`<main><p class="dim">Loading\u2026</p></main>`;
    if (kind === "e") return html`<${Episode} id=${args[0]} args=${args.slice(1)} ...${shared} />`;
    if (kind === "c") return html`<${Compare} key=${args.join()} ids=${args.slice(0, 2)} ...${shared} />`;
    if (kind === "train") return html`<${Training} run=${Number(args[0])} query=${query} ...${shared} />`;
    return html`<${Home} query=${query} ...${shared} />`;
  };
  return html`<div class="app"><header class="mast"><h1><a href="#/">Etude</a></h1><p class="names">${index?.runs.length > 1 ? html`${index.runs.length} runs${index.folder ? html` in <code>${index.folder}</code>` : null}` : html`<code>${index?.runs[0]}</code>`}</p>
      ${source.live && index ? html`<span class="live${index.lost ? " bad" : ""}" title=${index.lost || "new episodes appear by themselves"}>${index.lost ? "not connected" : "live"}</span>` : null}
      <button type="button" onClick=${switchTheme} title="light or dark (t)">theme</button><button type="button" onClick=${() => setHelp(true)} title="keys and signs (?)">help</button></header>
    ${[index?.lost, index?.problem].filter(Boolean).map((text) => html`<p class="cause banner">${text}</p>`)}${body()}${help ? html`<${Help} close=${() => setHelp(false)} />` : null}</div>`;
}

render(html`<${App} />`, document.getElementById("app"));
