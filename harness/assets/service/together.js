// Two steps in one chart: seconds count from the moment at which each one's plan was in force.
"use strict";
(() => {
  const { draw, parts, plans } = window.harnessCharts;
  const at = (id) => document.getElementById(id);
  const KINDS = ["first", "second"];
  const sides = [...document.querySelectorAll(".side")].map((box, i) => ({
    box, kind: KINDS[i], step: Number(box.dataset.step), events: [], since_ms: null, over: false,
    show: plans(box.querySelector("[data-part=plan]"), () => gone(i)), shown: -1, deleted: false,
  }));
  let following = true, playing = 0, waiting = false;

  const last_s = () => Math.max(0, ...sides.flatMap((side) => side.events.map((e) => e.seconds)));

  function tile(side, name, value) {
    const field = side.box.querySelector(`[data-tile=${name}]`);
    field.parentElement.hidden = value == null;
    field.textContent = value ?? "";
  }

  function chart(key, now_s) {
    const lines = sides.map((side) => {
      const points = side.events.filter((e) => e.seconds <= now_s && e[key] != null).map((e) => [e.seconds, e[key]]);
      return { kind: side.kind, stretches: points.length ? [points] : [] };
    });
    const values = sides.flatMap((side) => side.events.map((e) => e[key])).filter((v) => v != null);
    draw(at(key), { lines, end: Math.max(last_s(), 1), most: Math.max(...values, 1e-9), at: now_s });
  }

  function show(now_s) {
    chart("latency_ms", now_s);
    chart("rate_tps", now_s);
    for (const side of sides) {
      const e = side.events.findLast((one) => one.seconds <= now_s);
      if (!e) continue;
      const known = (key) => side.events.findLast((one) => one.seconds <= now_s && one[key] != null)?.[key];
      tile(side, "label", e.label);
      tile(side, "phase", e.phase + (e.detail ? `: ${e.detail}` : ""));
      const rate = known("rate_tps"), latency = known("latency_ms");
      tile(side, "rate", rate == null ? null : `${rate.toFixed(1)} messages/s`);
      tile(side, "latency", latency == null ? null : `${latency.toFixed(2)} ms`);
      side.show(side.box.dataset.plan, side.since_ms + now_s * 1000, "compact");
    }
    at("moment").value = now_s;
    at("moment").setAttribute("aria-valuetext", `${Math.round(now_s)} s`);
  }

  async function found(side) {  // what the server knows of a step that is finished by now
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const part = page.querySelectorAll(".side")[sides.indexOf(side)].querySelector("[data-part=found]");
    side.box.querySelector("[data-part=found]").replaceChildren(...part.childNodes);
  }

  function newest() {  // once a frame, however many events came
    waiting = false;
    const bar = at("moment");
    bar.max = last_s();
    bar.disabled = at("play").disabled = last_s() === 0;
    if (following) show(last_s());
  }

  function gone(i) {  // what was shown stays; no more is asked for
    sides[i].over = sides[i].deleted = true;
    sides[i].source.close();
    state();
  }

  function state() {
    const over = sides.filter((side) => side.over).length;
    const deleted = sides.find((side) => side.deleted);
    at("state").textContent = deleted ? `the run of ${deleted.box.ariaLabel} was deleted: what is shown was read before`
      : over === sides.length ? "both have ended" : over ? "one goes on" : "both go on";
  }

  for (const side of sides) {
    const source = side.source = new EventSource(side.box.dataset.events);
    source.onmessage = (message) => {
      const e = JSON.parse(message.data);
      if (e.step !== side.step || !e.phase) return;
      const time_ms = Date.parse(e.time);
      if (e.planned) { side.since_ms = time_ms; side.events = []; }  // a step that is measured again begins anew
      if (side.since_ms == null) { tile(side, "phase", e.phase + (e.detail ? `: ${e.detail}` : "")); if (e.phase === "declined") found(side); return; }
      e.seconds = (time_ms - side.since_ms) / 1000;
      side.events.push(e);
      if (e.phase === "done") found(side);
      if (!waiting) { waiting = true; requestAnimationFrame(newest); }
    };
    source.addEventListener("over", () => { source.close(); side.over = true; state(); });
    source.addEventListener("gone", () => gone(sides.indexOf(side)));
    source.addEventListener("cost", (message) => { at("cost").textContent = message.data; });
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) gone(sides.indexOf(side));
      else if (!side.over) at("state").textContent = "the service does not answer; asking again";
    };
    source.onopen = state;
  }

  function stop() { clearInterval(playing); playing = 0; at("play").textContent = "Play"; }
  at("moment").addEventListener("input", (e) => { stop(); following = sides.some((side) => !side.over) && +e.target.value >= last_s(); show(+e.target.value); });
  at("play").addEventListener("click", () => {
    if (playing) return stop();
    let now_s = +at("moment").value >= last_s() ? 0 : +at("moment").value;
    following = false;
    at("play").textContent = "Pause";
    playing = setInterval(() => {
      show(Math.min(now_s, last_s()));
      if (now_s++ >= last_s()) { stop(); following = true; }
    }, 80);
  });
  addEventListener("resize", () => show(+at("moment").value));
})();
