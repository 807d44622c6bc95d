// The application: address, keys, theme.
const HELP = [
  ["j, k", "next and previous episode, turn, pair or step"], ["Enter, o", "open or close; in the list: open the episode"], ["/", "search"], ["g, G", "first and last"],
  ["e, E", "next and previous error turn"], ["n", "next finding, at its evidence"], ["a", "open or close all turns"], ["f", "fork at this turn"],
  ["x", "mark an episode; c compares it with the current one"], ["[, ]", "previous and next episode"], ["u", "up: back to the list"], ["t", "light or dark"], ["?", "this help"],
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
  return html`<div class="help" role="dialog" aria-label="Keys" onClick=${close}><div><h3>Keys</h3><dl>${HELP.map(([key, text]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl></div></div>`;
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
  useEffect(() => { source.start(setIndex).catch((error) => setProblem(error.message)); }, []);
  if (!kind) list.query = query;
  const shared = { index, keys, list, picked, pick };
  useEffect(() => {
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
  return html`<div class="app"><header class="mast"><h1><a href="#/">Etude</a></h1><p class="names">${index ? index.runs.slice(0, 4).map((name) => html`<code>${name}</code> `) : null}</p>
      ${source.live && index ? html`<span class="live${index.problem ? " bad" : ""}" title=${index.problem || "new episodes appear by themselves"}>${index.problem ? "not connected" : "live"}</span>` : null}
      <button type="button" onClick=${switchTheme} title="light or dark (t)">theme</button><button type="button" onClick=${() => setHelp(true)} title="keys (?)">keys</button></header>
    ${index?.problem ? html`<p class="cause banner">${index.problem}</p>` : null}${body()}${help ? html`<${Help} close=${() => setHelp(false)} />` : null}</div>`;
}

render(html`<${App} />`, document.getElementById("app"));
