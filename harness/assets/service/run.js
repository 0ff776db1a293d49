// A run's events, shown as they come; when nobody measures any more, any moment of them can be shown again.
"use strict";
(() => {
  const live = document.getElementById("live"), here = live.dataset.here;
  const at = (id) => document.getElementById(id);
  const events = [];
  let following = true, drawn = null, playing = 0, over = false, waiting = false;

  const text = (id, value) => { at(id).textContent = value; };
  const duration = (s) => s == null ? "–" : s >= 90 ? `about ${Math.round(s / 60)} min` : `about ${Math.round(s)} s`;

  function svg(name, attributes, content) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (content !== undefined) node.textContent = content;
    return node;
  }

  function spans(upTo) {
    const found = [];
    for (let i = 0; i <= upTo; i++) {
      const e = events[i], last = found[found.length - 1];
      if (last && last.open) last.until = e.seconds;
      if (last && last.step === e.step && last.phase === e.phase) continue;
      if (last) last.open = false;
      found.push({ step: e.step, phase: e.phase, since: e.seconds, until: e.seconds, open: true });
    }
    return found;
  }

  function chart(id, key, upTo) {
    const box = at(id), width = box.clientWidth || 600, height = box.clientHeight || 170;
    const left = 46, top = 10, bottom = height - 22, right = width - 8;
    const end = Math.max(events[events.length - 1].seconds, 1), values = events.map((e) => e[key]).filter((v) => v != null);
    const most = Math.max(...values, 1e-9) * 1.1;
    const x = (s) => left + (right - left) * s / end, y = (v) => bottom - (bottom - top) * v / most;
    const parts = [];
    for (const span of spans(upTo)) {
      if (span.phase !== "burn-in" && span.phase !== "measure") continue;
      parts.push(svg("rect", { class: span.phase, x: x(span.since), y: top, width: Math.max(x(span.until) - x(span.since), 1), height: bottom - top }));
      if (span.phase === "burn-in") parts.push(svg("text", { x: x(span.since) + 3, y: top + 11 }, `step ${span.step}`));
    }
    for (const share of [0, 0.5, 1]) {
      const value = most / 1.1 * share;
      parts.push(svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, value >= 100 ? value.toFixed(0) : value.toPrecision(2)));
    }
    parts.push(svg("text", { x: right, y: height - 6, "text-anchor": "end" }, `${Math.round(end)} s`), svg("text", { x: left, y: height - 6 }, "0 s"));
    let path = "", before = null;
    for (let i = 0; i <= upTo; i++) {
      const e = events[i];
      if (e[key] == null) { if (e.step !== before) before = null; continue; }
      path += `${e.step === before ? "L" : "M"}${x(e.seconds).toFixed(1)} ${y(e[key]).toFixed(1)}`;
      before = e.step;
    }
    if (path) parts.push(svg("path", { class: "line", d: path }));
    parts.push(svg("line", { class: "at", x1: x(events[upTo].seconds), x2: x(events[upTo].seconds), y1: top, y2: bottom }));
    box.setAttribute("viewBox", `0 0 ${width} ${height}`);
    box.replaceChildren(...parts);
  }

  const parts = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes;

  async function plan(step) {
    if (step === drawn) return;
    drawn = step;
    const answer = await fetch(`${here}/plan/${step}`);
    if (!answer.ok || drawn !== step) return;
    at("plan").replaceChildren(...await parts(answer));
    text("plan-of", `of step ${step}`);
  }

  async function steps() {
    const answer = await fetch(`${here}/steps`);
    if (answer.ok) at("steps").replaceChildren(...await parts(answer));
  }

  function show(index) {
    const e = events[index];
    text("step", e.step == null ? "–" : `${e.step} (${e.step + 1} of ${e.steps}): ${e.label}`);
    text("phase", (e.phase || e.event) + (e.phase && e.detail ? `: ${e.detail}` : ""));
    text("left", e.event === "end" ? "none" : duration(e.left_s));
    text("rate", e.rate_tps == null ? "–" : `${e.rate_tps.toFixed(1)} messages/s`);
    text("latency", e.latency_ms == null ? "–" : `${e.latency_ms.toFixed(2)} ms`);
    text("ledger", Object.entries(e.ledger).filter((n) => n[1]).map((n) => n.join(" ")).join(", ") || "–");
    chart("latencies", "latency_ms", index);
    chart("rates", "rate_tps", index);
    let planned = null;
    for (let i = 0; i <= index; i++) if (events[i].planned) planned = events[i].step;
    if (planned != null) plan(planned);
    at("moment").value = index;
    at("moment").setAttribute("aria-valuetext", `${Math.round(e.seconds)} s, ${e.phase || e.event}`);
  }

  function newest() {  // once a frame, however many events came
    waiting = false;
    const bar = at("moment");
    bar.max = events.length - 1;
    bar.disabled = at("play").disabled = events.length < 2;
    if (following) show(events.length - 1);
  }

  const source = new EventSource(`${here}/events`);
  source.onmessage = (message) => {
    const e = JSON.parse(message.data);
    e.seconds = events.length ? (Date.parse(e.time) - events[0].time_ms) / 1000 : 0;
    e.time_ms = Date.parse(e.time);
    events.push(e);
    text("state", e.event === "end" ? `measuring ended: ${e.detail}` : live.dataset.now);
    if (e.phase === "done" && e.event === "phase") steps();
    if (!waiting) { waiting = true; requestAnimationFrame(newest); }
  };
  source.addEventListener("over", (message) => {
    source.close();
    over = true;
    if (message.data === "report") at("report").hidden = false;
    const last = events[events.length - 1];
    text("state", !last ? "nothing was measured yet" : last.event === "end" ? `measuring ended: ${last.detail}` : "measuring ended without a word: it was killed");
  });
  source.onerror = () => { if (!over) text("state", "the service does not answer; asking again"); };

  function stop() { clearInterval(playing); playing = 0; text("play", "Play"); }
  at("moment").addEventListener("input", (e) => { stop(); following = !over && +e.target.value === events.length - 1; show(+e.target.value); });
  at("play").addEventListener("click", () => {
    if (playing) return stop();
    let index = +at("moment").value >= events.length - 1 ? 0 : +at("moment").value;
    following = false;
    text("play", "Pause");
    playing = setInterval(() => {
      show(index);
      if (++index >= events.length) { stop(); following = true; }
    }, 80);
  });
  addEventListener("resize", () => { if (events.length) show(+at("moment").value); });
})();
