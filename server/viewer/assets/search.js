// Which episodes the list shows, and in which order. The work is done in slices of time, so that no key waits for it.
const FILTERS = ["q", "run", "reward", "kind", "finding", "generator", "agent", "step"];
const SORTS = {
  no: (row) => [row.run, row.number], agent: (row) => [row.agent], task: (row) => [row.task], reward: (row) => [row.value ?? -1],
  turns: (row) => [row.turns], errors: (row) => [row.errors], findings: (row) => [row.findings.length], time: (row) => [row.seconds ?? 0],
};
const SLICE_MS = 8;
const BETWEEN_CLOCKS = 64; // rows between two looks at the clock

function rewardClass(row) {
  if (row.running) return "running";
  return row.value === null ? "void" : row.value === 1 ? "full" : row.value === 0 ? "zero" : "part";
}

// Returns all that the search looks at, as one string that is made once for each episode.
function searched(row) {
  row.searched ??= [row.agent, row.task, row.end, row.generator, row.episode, row.kinds.join(" "), row.findings.join(" "), row.with, row.text].join(" ").toLowerCase();
  return row.searched;
}

const wordsOf = (query) => (query.q || "").toLowerCase().split(/\s+/).filter(Boolean);

// Returns one function for each filter in use; the search is last, because it takes longest.
function testsOf(query) {
  const tests = {
    run: (row) => String(row.run) === query.run,
    reward: (row) => { const reward = rewardClass(row); return reward === query.reward || (query.reward === "less" && (reward === "zero" || reward === "part")); },
    kind: (row) => (query.kind === "*" ? row.kinds.length > 0 : query.kind === "none" ? !row.kinds.length : row.kinds.includes(query.kind)),
    finding: (row) => (query.finding === "*" ? row.findings.length > 0 : row.findings.some((pair) => pair.includes(query.finding))),
    generator: (row) => row.generator === query.generator,
    agent: (row) => row.agent === query.agent || row.model === query.agent,
    step: (row) => String(row.step) === query.step,
  };
  return [...FILTERS.filter((name) => query[name] && tests[name]).map((name) => tests[name]), ...wordsOf(query).map((word) => (row) => searched(row).includes(word))];
}

function sorted(rows, sort) {
  const [name, order] = (sort || "no").split("-");
  if (!SORTS[name] || (name === "no" && order !== "down")) return rows;
  const sign = order === "down" ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [SORTS[name](a), SORTS[name](b)];
    for (let i = 0; i < x.length; i += 1) if (x[i] !== y[i]) return (x[i] < y[i] ? -1 : 1) * sign;
    return a.run - b.run || a.number - b.number;
  };
  return [...rows].sort(compare);
}

// Runs after what waits: keys, and the frame.
const later = (() => {
  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  return (work) => { waiting.push(work); channel.port2.postMessage(0); };
})();

// Calls `visit` with each row, in slices of time, then `end`. Returns a function that stops it.
function inSlices(rows, visit, end) {
  let place = 0;
  let stopped = false;
  const slice = () => {
    const until = performance.now() + SLICE_MS;
    while (!stopped && place < rows.length) {
      visit(rows[place]);
      place += 1;
      if (place % BETWEEN_CLOCKS === 0 && performance.now() > until) break;
    }
    if (stopped) return;
    if (place < rows.length) later(slice);
    else end();
  };
  slice();
  return () => { stopped = true; };
}

// A search that continues the one before only looks at what that one found.
const continues = (query, before) => before && FILTERS.every((name) => name === "q" || (query[name] || "") === (before[name] || "")) && (query.q || "").startsWith(before.q || "");

// Returns the rows that fit a query, and whether they are still those of the query before.
function useChosen(all, query) {
  const rows = useMemo(() => sorted(all, query.sort), [all, query.sort]);
  const wanted = JSON.stringify(FILTERS.map((name) => query[name] || ""));
  const [done, setDone] = useState(null);
  const known = useRef(null);
  useEffect(() => inSlices(rows, searched, () => {}), [rows]);
  useLayoutEffect(() => {
    const before = known.current;
    const from = before?.rows === rows && continues(query, before.query) ? before.fit : rows;
    const tests = testsOf(query);
    const finish = (fit) => { known.current = { rows, query, fit }; setDone({ wanted, rows, shown: fit }); };
    if (!tests.length) { finish(rows); return undefined; }
    const fit = [];
    return inSlices(from, (row) => { if (tests.every((test) => test(row))) fit.push(row); }, () => finish(fit));
  }, [rows, wanted]);
  return { shown: done?.shown, busy: done?.wanted !== wanted || done?.rows !== rows };
}
