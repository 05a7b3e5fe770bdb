"use strict";
(() => {
  const form = document.getElementById("submit");
  const byId = (id) => document.getElementById(id);
  const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16)).join("");
  // Kept until the farm has answered, so that sending again after a lost connection makes no second job.
  let key = fresh();

  function options() {
    const also = Array.from(byId("also").querySelectorAll(":checked"), (box) => box.value);
    const picked = {
      recipe: byId("recipe").value,
      deliverables: [...new Set([byId("deliverable").value, ...also])],
      title: byId("title").value.trim(),
    };
    const seconds = byId("chunk-seconds").value;
    if (seconds) picked.chunk_seconds = Number(seconds);
    if (byId("loudness").value) picked.loudness = byId("loudness").value;
    const size = byId("max-size").value;
    if (size) picked.max_bytes = Math.round(Number(size) * 1e6);
    const retries = byId("max-retries").value;
    if (retries) picked.max_retries = Number(retries);
    const face = byId("face").value;
    if (face) picked.identities = [{ face: Number(face) }];
    if (byId("choose").checked) picked.choose_mapping = true;
    const grant = byId("grant").value.trim();
    if (grant) picked.consent = { level: "A1", grant_sha256: grant };
    return picked;
  }

  function complain(text, field) {
    byId("problem").textContent = text;
    byId("problem").hidden = !text;
    if (field) field.focus();
  }

  function missing() {
    const chosen = byId("recipe").selectedOptions[0].dataset;
    const faces = chosen.faces === "yes", identity = chosen.identity === "yes";
    if (!byId("plate").files.length) return ["Choose the plate.", byId("plate")];
    if (identity && !byId("identity").files.length) return ["Choose a picture of the identity.", byId("identity")];
    if (faces && !byId("consent").checked) return ["Confirm the statement, or do not submit.", byId("consent")];
    if (!form.checkValidity()) {
      const field = form.querySelector(":invalid:not(fieldset)");
      if (field && field !== byId("consent")) return [field.validationMessage, field];
    }
    return null;
  }

  function finish(request) {
    let answer = {};
    if (request.status) key = fresh();
    try { answer = JSON.parse(request.responseText); } catch { /* the status says enough */ }
    if (request.status === 200 || request.status === 201) {
      location.assign("/jobs/" + encodeURIComponent(answer.id));
      return;
    }
    const fields = (answer.errors || []).map((e) => `${e.field}: ${e.message}`).join("; ");
    const where = answer.where ? answer.where + ": " : "";
    complain([where + (answer.detail || "The farm did not answer."), fields, answer.do].filter(Boolean).join(" "));
    byId("send").disabled = false;
    byId("sending").hidden = true;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const lack = missing();
    if (lack) return complain(...lack);
    complain("");
    const body = new FormData();
    body.append("options", JSON.stringify(options()));
    for (const file of byId("identity").files) body.append("identity", file, "identity");
    body.append("plate", byId("plate").files[0], "plate");
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("Idempotency-Key", key);
    request.upload.addEventListener("progress", (e) => {
      byId("sent").value = e.total ? e.loaded / e.total : 0;
      byId("sent-text").textContent = e.loaded === e.total ? "checking" : Math.round((100 * e.loaded) / e.total) + " %";
    });
    request.addEventListener("loadend", () => finish(request));
    byId("send").disabled = true;
    byId("sending").hidden = false;
    request.send(body);
  });
})();
