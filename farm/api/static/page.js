"use strict";
// What the live pages share; loaded before them.
const farmPage = (() => {
  const byId = (id) => document.getElementById(id);
  const words = (state) => state.replaceAll("_", " ");
  const text = (id, value) => { if (byId(id).textContent !== value) byId(id).textContent = value; };

  function element(name, content, className) {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    if (className) made.className = className;
    return made;
  }

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    const s = Math.round(seconds);
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  }

  return { byId, number: new Intl.NumberFormat(), words, text, element, duration };
})();
