"use strict";
// The data of a report: packed lines in the page itself. Nothing is loaded.
const source = (() => {
  const element = document.getElementById("data");
  const lines = element.textContent.split("\n");
  element.remove();
  const places = new Map();

  async function unpack(line) {
    const text = atob(line.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  return {
    live: false,
    async start(changed) {
      const index = await unpack(lines[0]);
      index.rows.forEach((row, place) => places.set(row.id, place + 1));
      changed(index);
    },
    async episode(row) {
      const line = lines[places.get(row.id)];
      return line ? unpack(line) : null;
    },
  };
})();
