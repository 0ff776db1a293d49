// The parts of a topology's page that change, asked for again while the page is seen.
"use strict";
(() => {
  const live = document.getElementById("live"), state = document.getElementById("state");
  const EVERY_MS = 5000;

  async function ask() {
    const view = document.querySelector("input[name=view]:checked").value;
    try {
      const answer = await fetch(`${live.dataset.here}?view=${view}`);
      const now = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) { state.textContent = (now.querySelector("main p") || now.body).textContent.trim(); return; }
      const open = live.querySelector("details")?.open, same = live.dataset.view === view;
      live.replaceChildren(...now.body.childNodes);
      live.dataset.view = view;
      if (same && open !== undefined && live.querySelector("details")) live.querySelector("details").open = open;
      state.textContent = `as of ${new Date().toLocaleTimeString()}`;
    } catch { state.textContent = "the service does not answer"; }
  }

  setInterval(() => { if (!document.hidden) ask(); }, EVERY_MS);
  for (const view of document.querySelectorAll("input[name=view]")) view.addEventListener("change", ask);
})();
