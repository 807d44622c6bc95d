// A training run: its curves by channel. A click on a point leads to the episodes of that step.
const CHART = { width: 360, height: 170, left: 48, right: 8, top: 8, bottom: 20 };

function ticks(low, high, most) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / most));
  const size = [1, 2, 5, 10].map((factor) => factor * power).find((one) => span / one <= most);
  const result = [];
  for (let tick = Math.ceil(low / size) * size; tick <= high + size / 1e6; tick += size) result.push(Number(tick.toPrecision(12)));
  return result;
}

function smooth(points) {
  const half = Math.floor(points.length / 24);
  return points.map(([step], n) => {
    const part = points.slice(Math.max(0, n - half), n + half + 1);
    return [step, part.reduce((sum, [, value]) => sum + value, 0) / part.length];
  });
}

function Chart({ chart, run, chosen, steps }) {
  const [at, setAt] = useState(null);
  const all = chart.series.flatMap((series) => series.points);
  const values = all.map(([, value]) => value);
  let [low, high] = chart.share ? [0, 1] : [Math.min(...values), Math.max(...values)];
  if (low === high) { low -= 0.5; high += 0.5; }
  const [first, last] = [Math.min(...all.map(([step]) => step)), Math.max(...all.map(([step]) => step))];
  const { width, height, left, right, top, bottom } = CHART;
  const x = (step) => left + ((width - left - right) * (step - first)) / Math.max(1, last - first);
  const y = (value) => top + ((height - top - bottom) * (high - value)) / (high - low);
  const nearest = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const step = first + (((event.clientX - box.left) / box.width) * width - left) / (width - left - right) * (last - first);
    return all.reduce((best, [one]) => (Math.abs(one - step) < Math.abs(best - step) ? one : best), first);
  };
  const shown = at ?? chosen;
  const label = chart.series.map((series) => { const point = series.points.find(([step]) => step === shown); return point ? `${series.name} ${short(point[1])}` : ""; }).filter(Boolean).join(", ");
  const limit = chart.limit !== null && chart.limit >= low && chart.limit <= high ? y(chart.limit) : null;
  return html`<figure class="chart"><figcaption><h3>${chart.title}</h3> <span class="key">${chart.series.map((series, n) => html`<span><i class="k${n + 1}"></i>${series.name} <b>${short(series.points[series.points.length - 1][1])}</b></span> `)}</span></figcaption>
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${chart.title} over steps" onMouseMove=${(event) => setAt(nearest(event))} onMouseLeave=${() => setAt(null)} onClick=${(event) => go(["train", run], { step: nearest(event) })}>
      ${ticks(low, high, 4).map((tick) => html`<path class="grid" d="M${left} ${y(tick)}H${width - right}" /><text class="tick end" x=${left - 5} y=${y(tick) + 3.5}>${short(tick)}</text>`)}
      ${ticks(first, last, 5).filter((tick) => Number.isInteger(tick) && x(tick) < width - right - 32).map((tick) => html`<text class="tick mid" x=${x(tick)} y=${height - 5}>${tick}</text>`)}
      <text class="tick end" x=${width - right} y=${height - 5}>step</text>
      ${limit === null ? null : html`<path class="bound" d="M${left} ${limit}H${width - right}" /><text class="tick end" x=${width - right} y=${limit - 4}>limit ${short(chart.limit)}</text>`}
      ${shown === null ? null : html`<path class="cursor" d="M${x(shown)} ${top}V${height - bottom}" />`}
      ${chart.series.map((series, n) => html`<path class="line c${n + 1}" d="M${smooth(series.points).map(([step, value]) => `${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}" /><path class="dots c${n + 1}" d="${series.points.map(([step, value]) => `M${x(step).toFixed(1)} ${y(value).toFixed(1)}h0`).join("")}" />`)}
    </svg><p class="at">${shown === null ? "\u00a0" : `step ${shown}${label ? `: ${label}` : ""}${steps.has(shown) ? ` (${count(steps.get(shown), "episode")})` : ""}`}</p></figure>`;
}

function StepEpisodes({ index, run, step, steps, list }) {
  const rows = useMemo(() => index.rows.filter((row) => row.run === run && row.step === step), [index.rows, run, step]);
  useEffect(() => { if (step !== null) list.order = rows; }, [rows]);
  if (step === null) return html`<p class="dim">${steps.size ? "Click a point of a curve to see the episodes of that step." : "This run recorded no episodes; record_episodes in the recipe keeps some of each step."}</p>`;
  return html`<section class="step"><div class="bar"><h3>Episodes of step ${step}</h3> <a href=${address([], { run, step })}>in the list</a></div>
    ${rows.length ? html`<table class="few"><thead><tr><th>no.</th><th>task</th><th class="num">reward</th><th class="num">turns</th><th>turn by turn</th><th>errors</th></tr></thead><tbody>${rows.map((row) => html`<tr><td><a href=${address(["e", row.id])}>${row.number}</a></td><td><a href=${address(["e", row.id])}><bdi>${row.task}</bdi></a></td><td class="num"><${Score} row=${row} /></td><td class="num">${row.turns}<span class="unit"> turns</span></td><td><${Strip} marks=${row.strip} /></td><td>${row.kinds.join(", ")}</td></tr>`)}</tbody></table>`
    : html`<p class="dim">No episode of this step was recorded.</p>`}</section>`;
}

function Training({ run, query, index, keys, list }) {
  const item = index.training.find((one) => one.run === run);
  const step = query.step ? Number(query.step) : null;
  const steps = useMemo(() => {
    const counts = new Map();
    for (const row of index.rows) if (row.run === run && row.step !== null) counts.set(row.step, (counts.get(row.step) || 0) + 1);
    return counts;
  }, [index.rows, run]);
  const move = (by) => {
    const known = [...(steps.size ? steps.keys() : item.steps)].sort((a, b) => a - b);
    const next = by > 0 ? known.find((one) => one > (step ?? -1)) : known.filter((one) => one < (step ?? Infinity)).pop();
    if (next !== undefined) goQuietly(["train", run], { step: next });
  };
  keys.current = { u: () => go([]), j: () => move(1), k: () => move(-1) };
  if (!item) return html`<main><p class="empty">There is no training run ${run} here. <a href="#/">All episodes</a></p></main>`;
  return html`<main class="training"><header><p class="crumbs"><a href="#/">Episodes</a> <span class="dim">/ training</span></p><h2><bdi title=${item.name}>${index.names[run] || item.name}</bdi></h2><p class="state ${item.state[0]}">${item.state[1]}</p>
    <dl class="totals">${item.totals.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      <p class="dim">Each dot is a step, the line is the mean of the neighbouring steps, and the number beside a name is the last value.</p></header>
    ${item.warnings.length ? html`<ul class="warnings">${item.warnings.map((text) => html`<li>${text}</li>`)}</ul>` : null}
    <${StepEpisodes} index=${index} run=${run} step=${step} steps=${steps} list=${list} />
    ${item.sections.map((section) => html`<section><h3 class="channel">${section.title}</h3><p class="dim">${section.about}</p><div class="charts">${section.charts.map((chart) => html`<${Chart} chart=${chart} run=${run} chosen=${step} steps=${steps} />`)}</div>
      ${section.constant.length ? html`<p class="dim">Unchanged: ${section.constant.map(([title, value]) => html`<span class="fact">${title} <b>${value}</b></span> `)}</p>` : null}</section>`)}</main>`;
}
