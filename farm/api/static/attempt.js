"use strict";
(() => {
  const root = document.getElementById("attempt");
  const api = `/api/v1/jobs/${encodeURIComponent(root.dataset.job)}/attempts/${encodeURIComponent(root.dataset.id)}/log`;
  const log = document.getElementById("log"), end = document.getElementById("end");
  let offset = 0, quiet = false;

  async function read() {
    let wait = 1000;
    try {
      const answer = await fetch(`${api}?offset=${offset}`);
      if (answer.ok) {
        const part = await answer.json();
        const below = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
        if (part.text) log.append(part.text);
        if (below) log.scrollTop = log.scrollHeight;
        offset = part.next;
        if (part.ended && !part.text && quiet) { end.textContent = log.textContent ? "The attempt has ended." : "There is no log: it is not kept any more, or never reached the store."; return; }
        quiet = part.ended && !part.text;
        if (part.text) wait = 0;
        if (!part.ended) end.textContent = "The attempt is running.";
      }
    } catch { /* the farm is away for a moment; the next round asks again */ }
    setTimeout(read, wait);
  }
  read();
})();
