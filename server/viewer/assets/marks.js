// Small pictures of an episode: its score, the strip of its turns, and the lanes of its timeline.
function Score({ row }) {
  if (row.running) return html`<span class="score running">running</span>`;
  if (row.value === null) return html`<span class="score void">${row.void ? "not valid" : "none"}</span>`;
  return html`<span class="score ${row.value === 1 ? "full" : "less"}">${short(row.value)}</span>`;
}

const STRIP = { width: 40, step: 3, low: 5, high: 12 };

// One picture of at most three paths. Long strips have columns of several turns, coloured as the worst turn in them.
function Strip({ marks }) {
  const size = Math.ceil(marks.length / STRIP.width) || 1;
  const paths = { e: "", f: "", o: "" };
  for (let start = 0, x = 1; start < marks.length; start += size, x += STRIP.step) {
    const part = marks.slice(start, start + size);
    const kind = part.includes("e") ? "e" : part.includes("f") ? "f" : "o";
    paths[kind] += `M${x} ${STRIP.high}v-${kind === "o" ? STRIP.low : STRIP.high}`;
  }
  return html`<svg class="strip" width=${STRIP.width * STRIP.step} height=${STRIP.high} aria-hidden="true">
    ${Object.keys(paths).map((kind) => paths[kind] && html`<path class=${`s-${kind}`} d=${paths[kind]} />`)}</svg>`;
}

const apart = (value) => `the teacher that read the hint is ${short(value)} nats a token away`;
const CELL = { least: 2, most: 26 };
const LANES = {
  turns: "one block for each turn; dark: its call failed. A click on any mark opens its turn",
  time: "how long the environment took for the turn, compared with the longest",
  errors: "error turns: filled (!) if not recovered, outlined (\u2713) if recovered; yellow: caused by an injected fault",
  hints: "a hint was written for the error; it stands beside the turn",
  teacher: "how far the policy is from the teacher that read the hint: the higher, the farther",
  faults: "faults that the environment injected on purpose",
  findings: "what monitors found: red confirmed, yellow suspect, grey for information",
};

function Lane({ name, children }) {
  return html`<div class="lane"><span class="lane-name" title=${LANES[name]}>${name}</span><div class="lane-body">${children}</div></div>`;
}

// Returns the marks of a lane at their turns.
function Marks({ items, cell }) {
  return items.map(({ turn, kind, label, href, text, share = 1 }) => html`<a class="mark ${kind}" href=${href} title=${label}
    style=${{ left: `${turn * cell}px`, width: `${Math.max(/^(turn|time)/.test(kind) ? 1 : 4, cell - (cell < 4 ? 0.5 : cell < 6 ? 1 : 2))}px`, ...(share < 1 ? { top: `${3 + 12 * (1 - share)}px` } : {}) }} tabindex="-1">${cell >= 12 || kind.startsWith("finding") ? text : ""}</a>`);
}

// The numbers of the turns, as many as there is room for.
function Axis({ number, cell }) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].find((one) => one * cell >= 36) || 5000;
  const numbers = Array.from({ length: Math.ceil(number / step) }, (_, n) => n * step);
  return html`<div class="axis" aria-hidden="true">${numbers.map((n) => html`<span style=${{ left: `calc(var(--names) + ${n * cell}px)`, minWidth: `${cell - 2}px` }}>${n}</span>`)}</div>`;
}

function turnHref(row, number) {
  return address(["e", row.id, "t", number]);
}

function laneItems(row, detail) {
  const turns = detail.turns.map((turn) => ({
    turn: turn.n, kind: turn.failed ? "turn bad" : "turn", href: turnHref(row, turn.n), label: `turn ${turn.n}: ${turn.outcome}`, text: "",
  }));
  const errors = detail.turns.flatMap((turn) => turn.errors.map((error) => ({
    turn: turn.n, kind: `error${error.injected ? " injected" : ""}${error.recovered ? " recovered" : ""}`, href: turnHref(row, turn.n),
    label: `${error.kind} at turn ${turn.n}, ${error.recovery}`, text: error.recovered ? "\u2713" : "!",
  })));
  const hints = detail.turns.flatMap((turn) => turn.errors.filter((error) => error.hints.length).map((error) => ({
    turn: turn.n, kind: "hint", href: turnHref(row, turn.n), label: `hint: ${whole(error.hints[0].text)}`, text: "?",
  })));
  const faults = detail.faults.map(([turn, kind]) => ({ turn, kind: "fault", href: turnHref(row, turn), label: `injected at turn ${turn}: ${kind}`, text: "~" }));
  const findings = detail.findings.map((finding, place) => ({ ...finding, place })).filter((finding) => finding.turn !== null).map((finding) => ({
    turn: finding.turn, kind: `finding ${finding.severity}`, href: address(["e", row.id, "f", finding.place]), label: `${finding.severity}: ${finding.exploit}`, text: "\u25b2",
  }));
  // Turns of a fraction of a second say nothing.
  const longest = Math.max(...detail.turns.map((turn) => turn.seconds || 0));
  const time = longest < 1 ? [] : detail.turns.filter((turn) => turn.seconds > 0).map((turn) => ({
    turn: turn.n, kind: "time", href: turnHref(row, turn.n), label: `turn ${turn.n}: ${duration(turn.seconds)}`, text: "", share: Math.max(0.1, turn.seconds / longest) }));
  // The bars are as high as the teacher is far away, compared with the episode's largest.
  const most = Math.max(...detail.teacher.map(([, value]) => value), 1e-9);
  const teacher = detail.teacher.map(([turn, value]) => ({ turn, kind: "teacher", href: turnHref(row, turn), label: `turn ${turn}: ${apart(value)}`, text: "", share: Math.max(0.15, value / most) }));
  return { turns, time, errors, hints, teacher, faults, findings };
}

function Timeline({ row, detail, current }) {
  const box = useRef(null);
  const [width, setWidth] = useState(800);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.max(200, (box.current?.clientWidth || 900) - 92));
    measure();
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, []);
  const number = Math.max(1, detail.turns.length);
  const cell = Math.min(CELL.most, Math.max(CELL.least, Math.floor(width / number)));
  const lanes = useMemo(() => laneItems(row, detail), [row, detail]);
  useLayoutEffect(() => {
    const left = current * cell - width / 2;
    if (box.current && number * cell > width) box.current.scrollLeft = Math.max(0, left);
  }, [current, cell, width]);
  // Turns that are scrolled to stay below the timeline, which stays at the top.
  useLayoutEffect(() => { document.documentElement.style.setProperty("--timeline", `${box.current.offsetHeight + 4}px`); });
  const used = Object.keys(LANES).filter((name) => name === "turns" || name === "errors" || lanes[name].length);
  return html`<div class="timeline" ref=${box} role="group" aria-label="Timeline of the episode">
    <div class="lanes" style=${{ minWidth: `${number * cell + 92}px` }}>
      ${detail.turns.length ? html`<i class="now" style=${{ left: `calc(var(--names) + ${current * cell}px)`, width: `${cell}px` }}></i>` : null}
      ${detail.turns.length ? html`<${Axis} number=${number} cell=${cell} />` : null}
      ${used.map((name) => html`<${Lane} name=${name}><${Marks} items=${lanes[name]} cell=${cell} /></>`)}
    </div>
  </div>`;
}
