// One episode: its facts, the timeline, and each turn with what was marked there beside it.
function needleOf(finding, detail) {
  if (!finding) return "";
  const turn = detail.turns.find((one) => one.n === finding.turn);
  const texts = turn
    ? [turn.thought, turn.text, ...turn.calls.flatMap((call) => [call.raw, call.body, ...call.args.map(([, value]) => value)]), ...turn.notes].map(whole)
    : detail.diff.flatMap((file) => file.lines.map((line) => whole(line[3])));
  const excerpt = whole(finding.excerpt);
  const lines = excerpt.split(/\n|\u2026/).map((line) => line.trim()).filter((line) => line.length > 2).sort((a, b) => b.length - a.length);
  const candidates = [excerpt.trim(), whole(finding.command).trim(), ...lines, finding.path];
  return candidates.find((text) => text && texts.some((one) => one.includes(text))) || "";
}

function Call({ call, needle }) {
  return html`<section class="call${call.kinds.length ? " wrong" : ""}">
    <h4><span class="dim">call ${call.n}</span> <code>${call.name || "(no name)"}</code>${call.kinds.map((kind) => html` <strong class="kind">${kind}</strong>`)}</h4>
    ${call.args.length ? html`<dl class="arguments">${call.args.map(([name, value]) => html`<div><dt><code>${name}</code></dt><dd><${Block} text=${value} needle=${needle} /></dd></div>`)}</dl>` : null}
    ${whole(call.raw) ? html`<p class="label">as it was written</p><${Block} text=${call.raw} needle=${needle} />` : null}
    ${call.faults.map(([kind, text]) => html`<p class="injected"><strong>injected ${kind}</strong> <${Txt} text=${text} /></p>`)}
    <p class="label">${call.status ? html`result <span class="status ${call.failed ? "bad" : "ok"}">${call.status}</span>` : "no result"}</p>
    <${Block} text=${call.body} needle=${needle} kind="result" />
  </section>`;
}

function ErrorNote({ error }) {
  return html`<div class="note error${error.injected ? " fault" : ""}">
    <p><strong class="kind">${error.kind}</strong>${error.behaviour ? html` <code>${error.behaviour}</code>` : null} <span class="dim">${error.call === null ? "" : `call ${error.call}, `}${error.injected ? "injected, " : ""}${error.recovery}</span></p>
    ${whole(error.message) ? html`<p class="message"><bdi><${Txt} text=${error.message} /></bdi></p>` : null}
    ${error.hints.map((hint) => html`<div class="hint"><p><b>hint</b> <code>${hint.name}</code>${hint.score === null ? null : html` <span class="dim">score ${short(hint.score)}</span>`} <span class="dim">${error.site === "recovery" ? "before the next turn" : "before this turn"}</span></p><bdi><${Txt} text=${hint.text} /></bdi></div>`)}
  </div>`;
}

function FindingNote({ finding, row, place, current }) {
  const where = finding.turn === null ? "in the diff" : `turn ${finding.turn}`;
  return html`<a class="note finding ${finding.severity}${current ? " chosen" : ""}" href=${address(["e", row.id, "f", place])}>
    <p><strong>${finding.severity}</strong> <bdi>${finding.exploit}</bdi> <span class="dim">${finding.stages.join(", ")}, ${where}</span></p>
    ${finding.path ? html`<p><code>${finding.path}</code></p>` : null}${whole(finding.excerpt || finding.command) ? html`<p class="excerpt"><code><${Txt} text=${finding.excerpt || finding.command} /></code></p>` : null}</a>`;
}

function Turn({ turn, row, detail, open, current, toggle, needle, forkAt }) {
  const teacher = detail.teacher.find(([number]) => number === turn.n);
  const faults = turn.errors.length ? [] : detail.faults.filter(([number]) => number === turn.n).map(([, kind]) => kind);
  const marks = teacher || turn.errors.length || turn.findings.length;
  // The key belongs to the turn that has the focus, not to the current one.
  const pressed = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); toggle(turn.n); } };
  return html`<li class="turn${turn.errors.length ? " erred" : ""}${current ? " current" : ""}" id="turn-${turn.n}">
    <div class="said">
      <div class="summary" role="button" tabindex="0" aria-expanded=${open} onKeyDown=${pressed} onClick=${() => toggle(turn.n)}><span class="n">${turn.n}</span>
        <span class="line">${whole(turn.text) ? html`<bdi>${whole(turn.text).slice(0, 160)}</bdi> ` : null}${turn.calls.slice(0, 4).map((call) => html`<bdi class="does"><code><b>${call.name || "(no name)"}</b> ${call.brief}</code></bdi> `)}${turn.calls.length > 4 ? html`<span class="dim">and ${turn.calls.length - 4} more</span>` : null}</span>
        ${faults.length ? html`<span class="status warn">injected ${faults.join(", ")}</span>` : html`<span class="status ${turn.failed ? "bad" : "ok"}"><bdi>${turn.outcome}</bdi></span>`}</div>
      ${open ? html`<div class="body">
        ${whole(turn.thought) ? html`<p class="label">thought</p><${Block} text=${turn.thought} needle=${needle} kind="prose" />` : null}
        ${whole(turn.text) ? html`<p class="label">said</p><${Block} text=${turn.text} needle=${needle} kind="prose" />` : null}
        ${turn.calls.map((call) => html`<${Call} call=${call} needle=${needle} />`)}
        ${turn.notes.map((note) => html`<p class="label">${detail.origin ? "user" : "environment"}</p><${Block} text=${note} needle=${needle} kind="prose" />`)}
        <p class="label">${duration(turn.seconds)} ${detail.origin ? null : html`<button type="button" class="fork-here" onClick=${() => forkAt(turn.n)}>fork here</button>`} <a href=${turnHref(row, turn.n)}>link</a></p></div>` : null}
    </div>
    ${marks ? html`<div class="beside">${turn.errors.map((error) => html`<${ErrorNote} error=${error} />`)}${teacher ? html`<p class="dim apart">${apart(teacher[1])}</p>` : null}${turn.findings.map((place) => html`<${FindingNote} finding=${detail.findings[place]} row=${row} place=${place} />`)}</div>` : null}
  </li>`;
}

function Diff({ files, title, id, leftOut, needle, note }) {
  if (!files || (!files.length && !note)) return null;
  return html`<section id=${id} class="diffs"><h3>${title}</h3>${files.length ? null : html`<p class="dim">${note}</p>`}${files.map((file) => html`<details class="file" open><summary><code><${Txt} text=${file.path} /></code> <span class="dim">${file.what}${whole(file.note) ? ": " : ""}<${Txt} text=${file.note} /></span>${file.added || file.removed ? html` <span class="plus">+${file.added}</span> <span class="minus">\u2212${file.removed}</span>` : null}</summary>
    ${file.lines.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="changed lines"><table class="diff"><tbody>${file.lines.map(([kind, old, now, text]) => html`<tr class=${kind}><td>${old}</td><td>${now}</td><td>${kind === "added" ? "+" : kind === "removed" ? "\u2212" : ""}</td><td>${kind === "gap" ? "\u22ee" : html`<${Txt} text=${text} needle=${needle} />`}</td></tr>`)}</tbody></table></div>` : null}
    ${file.left_out ? html`<p class="dim">${count(file.left_out, "line")} left out</p>` : null}</details>`)}${leftOut ? html`<p class="dim">${count(leftOut, "more path")} left out</p>` : null}</section>`;
}

function Tests({ tests }) {
  const { graded, counts, failures, end_cause: cause } = tests;
  if (!graded) return null;
  return html`<section id="tests"><h3>Test results</h3>${counts.length ? html`<p>${counts.map(([name, number]) => html`<span class="fact bad"><code>${name}</code> ${number} not passed</span> `)}</p>` : html`<p class="good">Every hidden test passed.</p>`}
    ${whole(cause) ? html`<${Block} text=${cause} />` : null}${failures.map(([component, test, why]) => html`<details class="file"><summary><code>${test}</code> <span class="dim">${component}</span></summary><${Block} text=${why} /></details>`)}
    ${counts.length && !failures.length ? html`<p class="dim">The names of hidden tests are secret and not on this page.</p>` : null}</section>`;
}

function Facts({ row, detail }) {
  const fork = detail.fork;
  const oracle = detail.oracle;
  const anchor = (id) => (event) => { event.preventDefault(); document.getElementById(id)?.scrollIntoView({ block: "start" }); };
  return html`<div class="lanes facts-lanes">
    ${detail.components.length ? html`<${Lane} name="reward">${detail.components.map(([name, value, share]) => html`<span class="fact ${value === 1 ? "good" : "bad"}"><code>${name}</code> ${short(value)}${share !== null && share !== undefined && share !== value ? html` <i class="dim">${short(share * 100)} % of tests</i>` : null}</span> `)}${detail.assurance ? html`<span class="dim">graded ${detail.assurance}</span>` : null}</>` : null}
    ${detail.tests.graded ? html`<${Lane} name="tests"><a href="#tests" onClick=${anchor("tests")}>${detail.tests.counts.length ? detail.tests.counts.map(([name, number]) => `${name}: ${number} not passed`).join(", ") : "all passed"}</a></>` : null}
    ${detail.diff.length ? html`<${Lane} name="diff"><a href="#diff" onClick=${anchor("diff")}>${count(detail.diff.length + detail.diff_left_out, "path")}</a></>` : null}
    ${oracle ? html`<${Lane} name="oracle"><a href="#oracle" onClick=${anchor("oracle")}>${oracle.length ? `${count(oracle.length, "file")} differ${oracle.length === 1 ? "s" : ""} from the reference solution` : "equal to the reference solution"}</a></>` : null}
    ${fork ? html`<${Lane} name="fork of"><code>${fork[0]}</code> at turn ${fork[1]}${row.with ? html`, with the hint <q><bdi>${row.with}</bdi></q>` : ", without a hint"}</>` : null}
    ${detail.sandbox ? html`<${Lane} name="sandbox">${detail.sandbox}</>` : null}${detail.origin ? html`<${Lane} name="read from"><code>${detail.origin}</code></>` : null}
  </div>`;
}
