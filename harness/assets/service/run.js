// A run's events, shown as they come; when nobody measures any more, any moment of them can be shown again.
"use strict";
(() => {
  const { draw, parts, plans } = window.harnessCharts;
  const live = document.getElementById("live"), here = live.dataset.here;
  const at = (id) => document.getElementById(id);
  const events = [], showPlan = plans(at("plan"), gone);
  let following = true, playing = 0, over = false, waiting = false, deleted = false;

  const text = (id, value) => { at(id).textContent = value; };
  const duration = (s) => s >= 90 ? `about ${Math.round(s / 60)} min` : `about ${Math.round(s)} s`;

  function tile(id, value) {  // a number that is not known at a moment is not shown
    at(id).parentElement.hidden = value == null || value === "";
    text(id, value ?? "");
  }

  // When a step has been measured, its last number stays until the next step begins.
  function last(index, key, given) {
    if (given(events[index][key])) return events[index][key];
    const after = events[index].event === "end" || ["drain", "done"].includes(events[index].phase), of = step(index);
    for (let i = index; after && i >= 0; i--) {
      if (events[i].step != null && events[i].step !== of) break;
      if (given(events[i][key])) return events[i][key];
    }
    return null;
  }

  function step(index) {
    for (let i = index; i >= 0; i--) if (events[i].step != null) return events[i].step;
    return null;
  }

  function spans(upTo) {
    const found = [];
    for (let i = 0; i <= upTo; i++) {
      const e = events[i], before = found[found.length - 1];
      if (before && before.open) before.until = e.seconds;
      if (before && before.step === e.step && before.kind === e.phase) continue;
      if (before) before.open = false;
      found.push({ step: e.step, kind: e.phase, since: e.seconds, until: e.seconds, open: true, text: e.phase === "burn-in" ? `step ${e.step}` : "" });
    }
    return found.filter((span) => span.kind === "burn-in" || span.kind === "measure");
  }

  function chart(id, key, upTo) {
    const stretches = [];
    let before = null;
    for (let i = 0; i <= upTo; i++) {
      const e = events[i];
      if (e[key] == null) { if (e.step !== before) before = null; continue; }
      if (e.step !== before) stretches.push([]);
      stretches[stretches.length - 1].push([e.seconds, e[key]]);
      before = e.step;
    }
    const values = events.map((e) => e[key]).filter((v) => v != null);
    draw(at(id), {
      lines: [{ kind: key, stretches }], spans: spans(upTo), most: Math.max(...values, 1e-9),
      end: Math.max(events[events.length - 1].seconds, 1), at: events[upTo].seconds,
    });
  }

  async function steps() {
    if (deleted) return;
    const answer = await fetch(`${here}/steps`);
    if (answer.status === 204) gone();
    else if (answer.ok) at("steps").replaceChildren(...await parts(answer));
  }

  function show(index) {
    const e = events[index], number = (v) => v != null, counts = (v) => v != null && Object.keys(v).length > 0;
    const of = step(index), label = of == null ? null : events.findLast((one, i) => i <= index && one.step === of);
    const rate = last(index, "rate_tps", number), latency = last(index, "latency_ms", number), ledger = last(index, "ledger", counts);
    tile("step", label && `${of} (${of + 1} of ${label.steps}): ${label.label}`);
    tile("phase", (e.phase || e.event) + (e.phase && e.detail ? `: ${e.detail}` : ""));
    tile("left", e.left_s == null ? null : duration(e.left_s));
    tile("rate", rate == null ? null : `${rate.toFixed(1)} messages/s`);
    tile("latency", latency == null ? null : `${latency.toFixed(2)} ms`);
    tile("ledger", ledger && Object.entries(ledger).filter((n) => n[1]).map((n) => n.join(" ")).join(", "));
    for (const [id, key] of [["busy", "machine_busy_pct"], ["stolen", "machine_steal_pct"]]) {
      const share = last(index, key, number);
      tile(id, share == null ? null : `${share.toFixed(1)} %`);
    }
    chart("latencies", "latency_ms", index);
    chart("rates", "rate_tps", index);
    plan(index);
    at("moment").value = index;
    at("moment").setAttribute("aria-valuetext", `${Math.round(e.seconds)} s, ${e.phase || e.event}`);
  }

  function plan(index) {
    const of = events.findLast((e, i) => i <= index && e.planned);
    if (!of || deleted) return;
    text("plan-of", `of step ${of.step}`);
    showPlan(`${here}/plan/${of.step}`, events[index].time_ms, document.querySelector("input[name=view]:checked").value);
  }

  function gone() {  // what was shown stays; no more is asked for
    deleted = over = true;
    source.close();
    text("state", "this run's folder was deleted: what is shown was read before");
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
    const end = events[events.length - 1];
    text("state", !end ? "nothing was measured yet" : end.event === "end" ? `measuring ended: ${end.detail}` : "measuring ended without a word: it was killed");
  });
  source.addEventListener("cost", (message) => text("cost", message.data));
  source.addEventListener("gone", gone);
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) gone();
    else if (!over) text("state", "the service does not answer; asking again");
  };

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
  for (const view of document.querySelectorAll("input[name=view]")) view.addEventListener("change", () => { if (events.length) plan(+at("moment").value); });
  addEventListener("resize", () => { if (events.length) show(+at("moment").value); });
})();
