// Texts, numbers and addresses. A text of an episode is a string, or [head, characters left out, tail].
const { html, render, useState, useEffect, useLayoutEffect, useMemo, useRef } = ui;

const whole = (text) => (Array.isArray(text) ? `${text[0]}\n${text[2]}` : text || "");
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const short = (value) => (value === null || value === undefined ? "" : String(Number(value.toPrecision(3))));

// Tokens that a model read and wrote, and what they cost.
function usageOf({ tokens, usd }) {
  if (!tokens) return "";
  return `${tokens[0].toLocaleString("en")} tokens read, ${tokens[1].toLocaleString("en")} written${usd ? `, $${usd < 0.01 ? short(usd) : usd.toFixed(2)}` : ""}`;
}

function duration(seconds) {
  if (!seconds) return ""; // not recorded
  if (seconds < 0.001) return "< 1 ms";
  if (seconds < 0.0995) return `${short(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

// A needle is shown as a mark, so that a finding leads to its evidence.
function marked(text, needle) {
  if (!needle || !text.includes(needle)) return text;
  const parts = text.split(needle);
  return parts.flatMap((part, place) => (place ? [html`<mark>${needle}</mark>`, part] : [part]));
}

function Txt({ text, needle }) {
  if (!Array.isArray(text)) return marked(text || "", needle);
  const [head, gap, tail] = text;
  return html`${marked(head, needle)}<em class="cut"> [${gap.toLocaleString("en")} characters left out] </em>${marked(tail, needle)}`;
}

function Block({ text, needle, kind = "" }) {
  return whole(text) ? html`<pre class=${kind}><${Txt} text=${text} needle=${needle} /></pre>` : null;
}

// The names of runs as they are shown: without the folder that all of them are in.
function namesOf(paths) {
  const parts = paths.map((path) => path.replace(/\/+$/, "").split("/"));
  const least = paths.length ? Math.min(...parts.map((part) => part.length)) : 0;
  let shared = 0;
  while (shared < least - 1 && parts.every((part) => part[shared] === parts[0][shared])) shared += 1;
  return { names: parts.map((part) => part.slice(shared).join("/")), folder: paths.length ? parts[0].slice(0, shared).join("/") : "" };
}

const Name = ({ children }) => html`<bdi>${children}</bdi>`;

// --- Addresses: "#/e/0.3/t/5", "#/?kind=timeout" ---------------------------------------------------------------

// Browsers refuse to write the address often (Safari: 100 times in 10 s), so it is written when the keys pause.
const ADDRESS_AFTER_MS = 200;
const unwritten = { address: null, timer: 0 };

function writeAddress() {
  clearTimeout(unwritten.timer);
  if (unwritten.address !== null) history.replaceState(null, "", unwritten.address);
  unwritten.address = null;
}

function route() {
  const [path, query = ""] = (unwritten.address ?? location.hash).replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: Object.fromEntries(new URLSearchParams(query)) };
}

function address(parts, query = {}) {
  const used = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const path = parts.map(encodeURIComponent).join("/");
  return `#/${path}${used.length ? `?${new URLSearchParams(used)}` : ""}`;
}

const go = (parts, query) => { writeAddress(); location.hash = address(parts, query); };
// An address that replaces the present one makes no new step back; one that is left at once is written at once.
function goAndStay(parts, query) { goQuietly(parts, query); writeAddress(); }
function goQuietly(parts, query) {
  unwritten.address = address(parts, query);
  clearTimeout(unwritten.timer);
  unwritten.timer = setTimeout(writeAddress, ADDRESS_AFTER_MS);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
window.addEventListener("hashchange", (event) => { if (event.isTrusted) unwritten.address = null; });
window.addEventListener("click", writeAddress, true);
window.addEventListener("pagehide", writeAddress);

const setting = {
  get(name) { try { return localStorage.getItem(`etude-${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`etude-${name}`, value); } catch { /* files may have no storage */ } },
};
