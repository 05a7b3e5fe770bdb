"use strict";
(() => {
  const api = "/api/v1";
  const { byId, number, words, text, element, duration } = farmPage;
  const sentences = new Map();
  let busy = false;

  function link(href, content) {
    const made = element("a", content);
    made.href = href;
    return made;
  }

  const jobLink = (id, title) => link("/jobs/" + encodeURIComponent(id), title || id);

  function bar(value, max, label) {
    const made = document.createElement("progress");
    made.max = max || 1;
    made.value = value;
    made.setAttribute("aria-label", label);
    return made;
  }

  // Rows are kept and filled anew, so that the keyboard's focus and a pressed button stay where they are.
  function fill(list, items, keyOf, draw) {
    const kept = new Map([...list.children].map((row) => [row.dataset.key, row]));
    const rows = items.map((item) => {
      const key = keyOf(item), row = kept.get(key) || element("li");
      row.dataset.key = key;
      const drawn = JSON.stringify(item);
      if (row.dataset.drawn !== drawn && !row.contains(document.activeElement)) {
        row.dataset.drawn = drawn;
        row.replaceChildren(...draw(item));
      }
      return row;
    });
    if (rows.length !== list.children.length || rows.some((row, i) => list.children[i] !== row)) list.replaceChildren(...rows);
  }

  function button(label, path, body, ask) {
    const made = element("button", label, "plain small");
    made.type = "button";
    made.addEventListener("click", () => {
      if (ask && !confirm(ask)) return;
      made.blur();
      send(path, body);
    });
    return made;
  }

  async function send(path, body) {
    const answer = await fetch(api + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    byId("problem").hidden = answer.ok;
    if (!answer.ok) {
      const told = await answer.json();
      byId("problem").textContent = [told.detail, told.do].filter(Boolean).join(" ");
    }
    refresh();
  }

  const REASON = "from the operators' page";

  function workerRow(worker) {
    const head = element("p", undefined, "head");
    head.append(element("strong", worker.name), element("span", worker.state, "state " + worker.state));
    if (worker.requested) head.append(element("span", "asked: " + worker.requested, "quiet"));
    const facts = [`${worker.busy} of ${worker.slots} slots busy`, worker.devices.join(", "), ...worker.tags.map((t) => "#" + t)];
    const path = `/workers/${encodeURIComponent(worker.id)}`;
    const told = (state, now) => ({ state, now: Boolean(now), reason: REASON });
    const buttons = element("p", undefined, "buttons");
    const resting = worker.requested === "asleep" || worker.requested === "offline" || worker.state === "asleep" || worker.state === "offline";
    if (resting) buttons.append(button("Wake", path + "/state", told("awake")));
    else if (worker.state !== "offline") buttons.append(button("Sleep after tasks", path + "/state", told("asleep")), button("Hand back now", path + "/state", told("asleep", true)));
    if (worker.state !== "offline") buttons.append(button("Restart", path + "/state", told("restart")), button("Leave", path + "/state", told("offline"), `Let ${worker.name} end once its tasks have ended?`));
    if (worker.blocks.length) buttons.append(button("Forgive", path + "/forgive", {}));
    const rows = [head, element("p", facts.filter(Boolean).join(" · "), "quiet")];
    for (const task of worker.tasks) rows.push(...taskRow(task));
    rows.push(element("p", worker.why, "why"));
    for (const block of worker.blocks) rows.push(element("p", "Blocked: " + block, "bad"));
    return [...rows, buttons];
  }

  function taskRow(task) {
    const what = task.kind === "render" ? `chunk ${task.position}` : task.kind;
    const line = element("p", undefined, "task");
    const rate = task.fps ? ` · ${task.fps.toFixed(1)} frames/s` : "";
    const quiet = task.quiet_seconds > 30 ? ` · nothing new for ${duration(task.quiet_seconds)}` : "";
    line.append(link(`/jobs/${encodeURIComponent(task.job)}/attempts/${encodeURIComponent(task.attempt)}`, what), " of ", jobLink(task.job, task.title));
    line.append(element("span", ` · ${task.note || "begun"} · ${duration(task.seconds)}${rate}${quiet}`, "quiet"));
    return task.frames_total ? [line, bar(task.frames_done, task.frames_total, what)] : [line];
  }

  function jobRow(job) {
    const head = element("p", undefined, "head");
    head.append(jobLink(job.id, job.title), element("span", words(job.state), "state " + job.state));
    const p = job.progress;
    const left = p.eta_seconds === null ? "" : `${duration(p.eta_seconds)}${p.eta_error ? " ± " + duration(p.eta_error) : ""} left`;
    const facts = [job.project, job.owner, `priority ${job.priority}`, p.chunks_total ? `${p.chunks_done} of ${p.chunks_total} ${p.chunks_total === 1 ? "chunk" : "chunks"}` : "", left,
      job.gpu_seconds ? `${duration(job.gpu_seconds)} GPU` : "", job.cost === null ? "" : `cost ${job.cost.toFixed(2)}`];
    const path = `/jobs/${encodeURIComponent(job.id)}`, reason = { reason: REASON };
    const buttons = element("p", undefined, "buttons");
    if (["paused", "pausing"].includes(job.state)) buttons.append(button("Resume", path + "/resume", reason));
    else if (job.state !== "cancelling") buttons.append(button("Pause", path + "/pause", reason));
    buttons.append(button("First", path + "/priority", { priority: 100 }), button("Last", path + "/priority", { priority: 0 }));
    if (job.state !== "cancelling") buttons.append(button("Cancel", path + "/cancel", reason, `Stop ${job.title || job.id} for good?`));
    return [head, element("p", facts.filter(Boolean).join(" · "), "quiet"), bar(p.frames_done, p.frames_total, "frames"), element("p", job.why || job.reason, "why"), buttons];
  }

  function failingRow(chunk) {
    const head = element("p", undefined, "head");
    head.append(jobLink(chunk.job, chunk.title), element("span", `chunk ${chunk.position}`), element("span", chunk.state, "state " + chunk.state), element("span", chunk.attempts === 1 ? "1 attempt" : `${chunk.attempts} attempts`, "quiet"));
    const path = `/jobs/${encodeURIComponent(chunk.job)}`;
    const buttons = element("p", undefined, "buttons");
    buttons.append(button("Requeue", path + "/requeue", { what: chunk.position, reason: REASON }));
    if (chunk.state === "failed") buttons.append(button("Accept as is", `${path}/chunks/${chunk.position}/accept`, { reason: "accepted " + REASON }, "Let this chunk show the plate's own frames?"));
    return [head, element("p", chunk.reason, "why"), buttons];
  }

  function shareRow(share) {
    const row = element("tr");
    const cap = share.max_running === null ? "" : ` of ${share.max_running}`;
    const budgets = [];
    if (share.budget_gpu_seconds !== null) budgets.push(duration(share.budget_gpu_seconds));
    if (share.budget_money !== null) budgets.push(`${share.money.toFixed(2)} of ${share.budget_money.toFixed(2)} in money`);
    const budget = budgets.length ? `${budgets.join(", ")}, ${share.budget_state}` : "–";
    row.append(element("th", share.name), element("td", share.running + cap), element("td", number.format(share.ready)));
    row.append(element("td", `${Math.round(100 * share.share)} % (${Math.round(100 * share.target)} %)`), element("td", duration(share.gpu_seconds)), element("td", budget, share.budget_state === "open" ? "" : "bad"));
    row.firstChild.scope = "row";
    return row;
  }

  async function ask(path) {
    const answer = await fetch(api + path);
    if (!answer.ok) throw new Error(path);
    return answer.json();
  }

  // One sentence for each worker, a few at a time: a large farm's page must not ask a thousand questions a second.
  async function askWhy(workers) {
    const asked = workers.filter((w) => w.state !== "offline").slice(0, 24);
    await Promise.all(asked.map(async (worker) => {
      try { sentences.set(worker.id, (await ask(`/workers/${encodeURIComponent(worker.id)}/why`)).why); } catch { /* it has just gone */ }
    }));
  }

  function show(farm, workers, jobs) {
    text("word", farm.word);
    byId("word").className = "state " + { active: "running", idle: "done", waiting: "paused", asleep: "waiting" }[farm.word] || "state failed";
    if (farm.word === "inoperative") byId("word").className = "state failed";
    text("why", farm.why);
    text("running", number.format(farm.tasks.length));
    text("ready", number.format(Object.values(farm.queue).reduce((a, b) => a + b, 0)));
    text("oldest", duration(farm.oldest_seconds));
    text("open", number.format(Object.values(farm.jobs).reduce((a, b) => a + b, 0)));
    const shown = workers.map((w) => ({ ...w, seen_at: "", tasks: farm.tasks.filter((t) => t.worker === w.id), why: w.state === "offline" ? w.reason : sentences.get(w.id) || w.reason }));
    fill(byId("workers"), shown, (w) => w.id, workerRow);
    byId("no-workers").hidden = shown.length > 0;
    fill(byId("jobs"), jobs, (j) => j.id, jobRow);
    byId("no-jobs").hidden = jobs.length > 0;
    byId("failing-section").hidden = !farm.failing.length;
    fill(byId("failing"), farm.failing, (c) => c.job + "/" + c.position, failingRow);
    byId("shares-section").hidden = !farm.shares.length;
    byId("shares").replaceChildren(...farm.shares.map(shareRow));
  }

  async function refresh() {
    if (busy) return;
    busy = true;
    try {
      const [farm, workers, jobs] = await Promise.all([ask("/farm"), ask("/workers"), ask("/jobs?state=open&limit=50")]);
      await askWhy(workers.items);
      const whys = await Promise.all(jobs.items.slice(0, 24).map(async (job) => {
        try { return (await ask(`/jobs/${encodeURIComponent(job.id)}/why`)).why; } catch { return ""; }
      }));
      show(farm, workers.items, jobs.items.map((job, i) => ({ ...job, why: whys[i] || "" })));
    } catch { text("why", "The farm does not answer; asking again."); }
    busy = false;
  }

  refresh();
  setInterval(() => { if (!document.hidden) refresh(); }, 2000);
})();
