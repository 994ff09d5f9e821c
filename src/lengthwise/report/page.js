// Draws the figures in the theme of the page, brings out the encoding that the legend points at, copies tables.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const views = new Map(); // id of a figure -> its Vega view

  const asked = new URLSearchParams(location.search).get("theme");
  if (asked === "light" || asked === "dark") root.dataset.theme = asked;
  const theme = () => root.dataset.theme || (prefersDark.matches ? "dark" : "light");

  async function draw(chart) {
    const shown = await vegaEmbed(chart, data.figures[chart.id], {
      mode: "vega-lite",
      renderer: "svg",
      config: data.themes[theme()],
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: chart.id,
      tooltip: { theme: theme() },
    });
    views.get(chart.id)?.finalize();
    views.set(chart.id, shown.view);
    const section = chart.closest("section");
    if (section.dataset.pinned) focus(section, section.dataset.pinned);
  }

  function drawAll() {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${theme() === "dark" ? "light" : "dark"}`);
    for (const chart of document.querySelectorAll(".chart")) {
      draw(chart).catch((error) => { chart.textContent = `This figure can't be drawn: ${error.message}`; });
    }
  }

  function focus(section, label) {
    for (const chart of section.querySelectorAll(".chart")) {
      const view = views.get(chart.id);
      if (view && "focus" in view.getState().signals) view.signal("focus", label).runAsync();
    }
  }

  for (const key of document.querySelectorAll(".legend button")) {
    const section = key.closest("section");
    const leave = () => focus(section, section.dataset.pinned || "");
    key.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") focus(section, key.dataset.focus); });
    key.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") leave(); });
    key.addEventListener("click", () => {
      section.dataset.pinned = section.dataset.pinned === key.dataset.focus ? "" : key.dataset.focus;
      for (const other of section.querySelectorAll(".legend button")) {
        other.setAttribute("aria-pressed", String(other.dataset.focus === section.dataset.pinned));
      }
      leave();
    });
  }

  // Browsers that keep the clipboard from a page on disk still copy a selection; where that fails too, the button says so.
  async function copy(text) {
    if (navigator.clipboard && (await navigator.clipboard.writeText(text).then(() => true, () => false))) return;
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser refused");
  }

  for (const key of document.querySelectorAll("[data-copy]")) {
    const name = key.textContent;
    key.addEventListener("click", async () => {
      key.textContent = await copy(data.texts[key.dataset.copy]).then(() => "Copied", (error) => `Not copied: ${error.message}`);
      setTimeout(() => { key.textContent = name; }, 1500);
    });
  }

  button.addEventListener("click", () => { root.dataset.theme = theme() === "dark" ? "light" : "dark"; drawAll(); });
  prefersDark.addEventListener("change", () => { if (!root.dataset.theme) drawAll(); });
  drawAll();
})();
