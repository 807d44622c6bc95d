"use strict";
// The data of a server, which is asked again and again for what is new.
const source = (() => {
  const EVERY_MS = 1500;
  const TOKENS = "etude-tokens";
  const headers = () => ({ "Content-Type": "application/json", "X-Etude-View": "1", "X-Session-Tokens": stored() });
  const base = location.pathname.replace(/\/$/, "");
  let index = null;
  let cursor = "";
  let notify = () => {};

  function stored() {
    try { return sessionStorage.getItem(TOKENS) || ""; } catch { return ""; }
  }

  async function load(path, wish) {
    const sent = wish && { method: "POST", body: JSON.stringify(wish) };
    const answer = await fetch(`${base}/data/${path}`, { headers: headers(), cache: "no-store", ...sent });
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(typeof body.detail === "string" ? body.detail : `the server answered ${answer.status}`);
    return body;
  }

  function merge(news) {
    const rows = new Map(news.all || !index ? [] : index.rows.map((row) => [row.id, row]));
    for (const row of news.rows) rows.set(row.id, row);
    return { ...(index || {}), ...news, rows: [...rows.values()] };
  }

  async function poll() {
    try {
      const news = await load(`index?after=${encodeURIComponent(cursor)}`);
      if (!index || news.cursor !== cursor || index.lost) {
        cursor = news.cursor;
        index = { ...merge(news), lost: "" };
        notify(index);
      }
    } catch (error) {
      index = { ...(index || { runs: [], rows: [], training: [] }), lost: `not connected: ${error.message}` };
      notify(index);
    }
  }

  async function always() {
    await poll();
    setTimeout(always, EVERY_MS);
  }

  return {
    live: true,
    start(changed) {
      notify = changed;
      return always();
    },
    episode: (row) => load(`episodes/${encodeURIComponent(row.id)}`),
    fork: (wish) => load("forks", wish).then(poll),
    tokens: stored,
    async useTokens(text) {
      try { sessionStorage.setItem(TOKENS, text); } catch { /* kept for this page alone */ }
      cursor = "";
      index = null;
      await poll();
    },
  };
})();
