// Line charts over seconds, and a plan as it ran at a moment; for the pages of runs.
"use strict";
window.harnessCharts = (() => {
  const PLAN_EVERY_MS = 5000;

  function svg(name, attributes, content) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (content !== undefined) node.textContent = content;
    return node;
  }

  // lines: [{kind, stretches: [[[seconds, value], ...], ...]}]; spans: [{kind, since, until, text}]
  function draw(box, { lines, spans = [], end, most, at }) {
    const width = box.clientWidth || 600, height = box.clientHeight || 170;
    const left = 46, top = 10, bottom = height - 22, right = width - 8;
    const x = (s) => left + (right - left) * s / end, y = (v) => bottom - (bottom - top) * v / (most * 1.1);
    const parts = [];
    for (const span of spans) {
      parts.push(svg("rect", { class: span.kind, x: x(span.since), y: top, width: Math.max(x(span.until) - x(span.since), 1), height: bottom - top }));
      if (span.text) parts.push(svg("text", { x: x(span.since) + 3, y: top + 11 }, span.text));
    }
    for (const share of [0, 0.5, 1]) {
      const value = most * share;
      parts.push(svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, value >= 100 ? value.toFixed(0) : value.toPrecision(2)));
    }
    parts.push(svg("text", { x: right, y: height - 6, "text-anchor": "end" }, `${Math.round(end)} s`), svg("text", { x: left, y: height - 6 }, "0 s"));
    for (const { kind, stretches } of lines) {
      const path = stretches.map((points) => "M" + points.map(([s, v]) => `${x(s).toFixed(1)} ${y(v).toFixed(1)}`).join("L")).join("");
      if (path) parts.push(svg("path", { class: `line ${kind}`, d: path }));
    }
    parts.push(svg("line", { class: "at", x1: x(at), x2: x(at), y1: top, y2: bottom }));
    box.setAttribute("viewBox", `0 0 ${width} ${height}`);
    box.replaceChildren(...parts);
  }

  const parts = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes;

  // Shows a step's plan in a box; one request at a time, the newest that was wanted meanwhile next.
  // Where the run was deleted, gone is called.
  function plans(box, gone) {
    let shown = "", wanted = "", busy = false;
    return async (address, time_ms, view) => {
      wanted = `${address}?view=${view}&at=${Math.floor(time_ms / PLAN_EVERY_MS) * PLAN_EVERY_MS}`;
      if (busy) return;
      busy = true;
      while (wanted !== shown) {
        shown = wanted;
        try {
          const answer = await fetch(shown);
          if (answer.status === 204) return gone();  // and stays busy: no more is asked for
          if (answer.ok) replace(box, await parts(answer), shown.split("&")[0]);
        } catch { /* asked again with the next moment */ }
      }
      busy = false;
    };
  }

  // What was open and scrolled in a box stays so while it shows the same plan.
  function replace(box, nodes, of) {
    const same = box.dataset.of === of, before = box.querySelector("details")?.open, at = box.querySelector(".scroll")?.scrollLeft;
    box.replaceChildren(...nodes);
    box.dataset.of = of;
    const details = box.querySelector("details");
    if (same && details && before !== undefined) details.open = before;
    if (same && at) box.querySelector(".scroll").scrollLeft = at;
  }

  return { draw, parts, plans };
})();
