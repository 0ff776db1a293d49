// The parts of a topology's page that change, asked for again while the page is seen.
"use strict";
(() => {
  const live = document.getElementById("live"), state = document.getElementById("state");
  const EVERY_MS = 5000;
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(live.dataset.here);
      const now = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) { state.textContent = (now.querySelector("main p") || now.body).textContent.trim(); return; }
      live.replaceChildren(...now.body.childNodes);
      state.textContent = `as of ${new Date().toLocaleTimeString()}`;
    } catch { state.textContent = "the service does not answer"; }
  }, EVERY_MS);
})();
