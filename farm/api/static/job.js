"use strict";
(() => {
  const root = document.getElementById("job");
  const api = "/api/v1/jobs/" + encodeURIComponent(root.dataset.id);
  const { byId, number, words, text, element, duration } = farmPage;
  const SHOWN_EVENTS = 200, SHOWN_PREVIEWS = 4;
  let busy = false, again = false, final = false, newest = 0;

  function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let n = bytes, u = 0;
    while (n >= 1024 && u < units.length - 1) { n /= 1024; u += 1; }
    return (u ? n.toFixed(1) : n) + " " + units[u];
  }

  function facts(object) {
    const list = element("dl", undefined, "facts");
    for (const [name, value] of Object.entries(object)) {
      if (value === null || value === "" || (Array.isArray(value) && !value.length)) continue;
      const shown = typeof value === "object" ? JSON.stringify(value) : String(value);
      list.append(element("dt", words(name)), element("dd", shown));
    }
    return list;
  }

  function showFiles(files) {
    byId("files-section").hidden = !files.length;
    byId("files").replaceChildren(...files.map((file) => {
      const item = element("li");
      const link = element("a", file.name + " (" + size(file.size) + ")");
      link.href = file.url;
      link.download = file.filename;
      item.append(link, facts({ sha256: file.sha256, ...file.verified }));
      return item;
    }));
  }

  function showJob(job) {
    final = job.final;
    text("state", words(job.state));
    byId("state").className = "state " + job.state;
    text("reason", job.reason);
    text("why", job.reason && job.why.endsWith(job.reason) ? "" : job.why);
    const p = job.progress;
    byId("progress").max = p.frames_total || 1;
    byId("progress").value = p.frames_done;
    text("frames", number.format(p.frames_done) + (p.frames_total ? " of " + number.format(p.frames_total) : ""));
    text("chunks", p.chunks_total === null ? "–" : p.chunks_done + " of " + p.chunks_total);
    text("fps", p.fps ? p.fps.toFixed(1) : "–");
    text("eta", final ? "–" : duration(p.eta_seconds) + (p.eta_error ? " ± " + duration(p.eta_error) : ""));
    text("gpu", job.gpu_seconds ? duration(job.gpu_seconds) : "–");
    byId("cost-box").hidden = job.cost === null;
    text("cost", job.cost === null ? "" : job.cost.toFixed(2));
    byId("warnings-section").hidden = !job.warnings.length;
    byId("warnings").replaceChildren(...job.warnings.map((w) => element("li", w.text)));
    showFiles(job.deliverables);
    const may = {
      cancel: !final && job.state !== "cancelling",
      pause: !final && !["paused", "pausing", "cancelling"].includes(job.state),
      resume: ["paused", "pausing"].includes(job.state),
      requeue: !job.deleting && (job.state === "failed" || job.state === "cancelled"),
      delete: !job.deleting,
    };
    for (const button of document.querySelectorAll("[data-command]")) button.hidden = !may[button.dataset.command];
  }

  function showChunks(chunks) {
    const strip = byId("strip");
    while (strip.children.length > chunks.length) strip.lastChild.remove();
    chunks.forEach((chunk, i) => {
      const item = strip.children[i] || strip.appendChild(element("li"));
      const frames = chunk.last - chunk.first;
      const label = `Chunk ${chunk.index}, frames ${chunk.first} to ${chunk.last - 1}: ${words(chunk.state)}` +
        (chunk.state === "running" ? `, ${chunk.frames_done} of ${frames}` : "") + (chunk.reason ? `. ${chunk.reason}` : "");
      if (item.title === label) return;
      item.title = label;
      item.setAttribute("aria-label", label);
      item.className = chunk.state;
      item.style.flexGrow = frames;
      item.replaceChildren();
      if (chunk.state === "running") {
        const ns = "http://www.w3.org/2000/svg";
        const svg = document.createElementNS(ns, "svg"), bar = document.createElementNS(ns, "rect");
        bar.setAttribute("width", (100 * chunk.frames_done) / frames + "%");
        bar.setAttribute("height", "100%");
        svg.append(bar);
        item.append(svg);
      }
    });
    const failed = chunks.filter((c) => c.state === "failed").length;
    const running = chunks.filter((c) => c.state === "running").length;
    const parts = [];
    if (running) parts.push(`${running} rendering`);
    if (failed) parts.push(`${failed} failed`);
    text("chunk-text", parts.join(", "));
  }

  // Pictures of the first few chunks that are being rendered; one that has no picture yet is not shown.
  function showPreviews(chunks) {
    const list = byId("previews");
    const wanted = chunks.filter((c) => c.state === "running").slice(0, SHOWN_PREVIEWS).map((c) => String(c.index));
    for (const item of [...list.children]) if (!wanted.includes(item.dataset.index)) item.remove();
    for (const index of wanted) {
      if (![...list.children].some((item) => item.dataset.index === index)) list.append(previewOf(index));
    }
    for (const item of list.children) {
      item.firstChild.src = api + "/chunks/" + item.dataset.index + "/preview?at=" + Date.now();
    }
    byId("previews-section").hidden = ![...list.children].some((item) => !item.hidden);
  }

  function previewOf(index) {
    const item = element("li"), picture = element("img");
    item.dataset.index = index;
    item.hidden = true;
    picture.alt = `Chunk ${index}: plate and result`;
    picture.addEventListener("load", () => { item.hidden = byId("previews-section").hidden = false; });
    picture.addEventListener("error", () => { item.hidden = true; });
    item.append(picture, element("span", `chunk ${index}`, "quiet"));
    return item;
  }

  let shownPeople = null;

  // The people's part comes from the farm as it is, and anew when somebody was corrected or mapped, or more is rendered.
  async function showPeople(job) {
    const told = JSON.stringify([job.cast, job.state === "awaiting_cast", job.progress.chunks_done, job.final]);
    const first = shownPeople === null, box = byId("people");
    if (told === shownPeople || (!first && box.contains(document.activeElement))) return;
    shownPeople = told;
    if (first && box.firstElementChild && job.state === "awaiting_cast") return;
    const answer = await fetch(`/jobs/${encodeURIComponent(root.dataset.id)}/people`);
    if (!answer.ok) { shownPeople = ""; return; }
    const open = [...box.querySelectorAll("details[open]")].map((part) => part.closest("li").id);
    box.innerHTML = await answer.text();
    for (const id of open) byId(id)?.querySelector("details")?.setAttribute("open", "");
  }

  const SHOWN_ATTEMPTS = 50;

  function showAttempts(attempts) {
    const telling = attempts.filter((a) => a.state !== "done").concat(attempts.filter((a) => a.state === "done"));
    byId("attempts").replaceChildren(...telling.slice(0, SHOWN_ATTEMPTS).map((attempt) => {
      const item = element("li");
      const what = attempt.kind === "render" ? `chunk ${attempt.position}` : attempt.kind;
      const link = element("a", `${what}, attempt ${attempt.number}`);
      link.href = `/jobs/${encodeURIComponent(root.dataset.id)}/attempts/${encodeURIComponent(attempt.id)}`;
      item.append(link, " ", element("span", attempt.state, "state " + attempt.state), ` ${attempt.worker}`);
      if (attempt.environment.reused) item.append(" · an earlier result was taken over");
      if (attempt.error) item.append(element("div", attempt.error, "quiet"));
      if (attempt.cause) item.append(element("div", "Cause: " + attempt.cause, "quiet"));
      return item;
    }));
  }

  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const [job, chunks, attempts] = await Promise.all(["", "/chunks", "/attempts?limit=100"].map((part) => fetch(api + part)));
      if (job.ok) {
        const told = await job.json();
        showJob(told);
        if (told.cast) await showPeople(told);
      }
      if (chunks.ok) {
        const items = (await chunks.json()).items;
        showChunks(items);
        if (!document.hidden) showPreviews(items);
      }
      if (attempts.ok) showAttempts((await attempts.json()).items);
    } catch { /* the farm is away for a moment; the next round asks again */ }
    busy = false;
    if (again) { again = false; refresh(); }
  }

  function subject(event) {
    const noun = event.kind.split(".")[0], data = event.data;
    const kind = noun === "attempt" ? data.kind : noun;
    if (kind !== "render") return noun === "attempt" ? "attempt at " + kind : noun;
    const chunks = data.positions || [data.position];
    const named = chunks.length > 1 ? `chunks ${chunks[0]} to ${chunks.at(-1)}` : `chunk ${chunks[0]}`;
    return noun === "attempt" ? "attempt at " + named : named;
  }

  function showEvent(event) {
    if (event.id <= newest) return;
    newest = event.id;
    // That an attempt came to a good end is told by its task in the next line.
    if (event.kind === "attempt.state" && event.after === "done") return;
    const what = [subject(event), event.after ? words(event.after) : ""].filter(Boolean).join(" ");
    const item = element("li");
    const time = element("time", new Date(event.at).toLocaleTimeString());
    time.dateTime = event.at;
    item.append(time, element("span", what + (event.reason ? ": " + event.reason : "")));
    byId("events").prepend(item);
    while (byId("events").children.length > SHOWN_EVENTS) byId("events").lastChild.remove();
  }

  function follow() {
    const source = new EventSource(api + "/events?after=" + newest);
    source.addEventListener("change", (message) => { showEvent(JSON.parse(message.data)); refresh(); });
    source.addEventListener("end", () => { source.close(); refresh(); });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED && !final) setTimeout(follow, 5000);
    });
  }

  async function command(name) {
    const gone = name === "delete";
    if (gone && !confirm("Delete this job and all that is stored of it?")) return;
    const answer = await fetch(gone ? api : api + "/" + name, {
      method: gone ? "DELETE" : "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ reason: "from the job's page" }),
    });
    const told = await answer.json();
    byId("problem").hidden = answer.ok;
    if (!answer.ok) byId("problem").textContent = [told.detail, told.do].filter(Boolean).join(" ");
    if (answer.ok && final) follow();
    refresh();
  }

  for (const button of document.querySelectorAll("[data-command]")) {
    button.addEventListener("click", () => command(button.dataset.command));
  }
  refresh();
  follow();
  setInterval(() => { if (!final && !document.hidden) refresh(); }, 1000);
})();
