// Starting, stopping and repeating jobs: forms become JSON, sent with the token that the service printed.
"use strict";
(() => {
  const KEY = "token";
  const given = new URLSearchParams(location.hash.slice(1)).get(KEY);
  if (given) {
    localStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const say = (text) => { const at = document.getElementById("said"); if (at) at.textContent = text; };

  async function send(address, body) {
    const headers = { "content-type": "application/json", authorization: `Bearer ${localStorage.getItem(KEY) || ""}` };
    const answer = await fetch(address, { method: "POST", headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const said = await answer.json();
    return answer.ok ? { said } : { trouble: said.errors.map((e) => e.error).join("; ") };
  }
  window.harness = { send };

  function body(form) {
    const asked = { kind: form.dataset.kind };
    for (const field of form.elements) {
      if (!field.name || (field.type === "checkbox" && !field.checked) || field.value === "") continue;
      if (field.dataset.as === "list") (asked[field.name] ||= []).push(field.value);
      else if (field.type === "checkbox") asked[field.name] = true;
      else asked[field.name] = field.type === "number" ? Number(field.value) : field.value;
    }
    return asked;
  }

  for (const form of document.querySelectorAll("form[data-kind]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      say("asking");
      const { said, trouble } = await send(form.action, body(form));
      if (trouble) say(trouble); else location.assign(`${form.dataset.work}/${said.id}`);
    });
  }
  // The first file has original and proposal; all others have one of them, to be played at once.
  window.harness.together = async (page, files, simulated) => {
    const jobs = [];
    for (const file of simulated && files.length > 1 ? files.slice(1) : files.slice(0, 1)) {
      const { said, trouble } = await send(`${page}/../jobs`, { kind: "run", file, simulated });
      if (trouble) return say(trouble);
      jobs.push(`job=${encodeURIComponent(said.id)}`);
    }
    location.assign(`${page}?${jobs.join("&")}`);
  };
  for (const form of document.querySelectorAll("form[data-together]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      say("asking");
      const files = [...form.querySelectorAll("input[name=file]")].map((field) => field.value);
      window.harness.together(form.dataset.together, files, form.elements.simulated.checked);
    });
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-post]");
    if (!button) return;
    say("asking");
    const { trouble } = await send(button.dataset.post);
    if (trouble) say(trouble); else location.reload();
  });
  const job = document.getElementById("job");
  if (job && "ongoing" in job.dataset) {  // what it says is shown until it ends
    const timer = setInterval(async () => {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("job");
      if (!("ongoing" in now.dataset)) { clearInterval(timer); location.reload(); return; }
      const focused = job.querySelector("button:focus");
      job.dataset.state = now.dataset.state;
      job.replaceChildren(...now.childNodes);
      if (focused) job.querySelector("button")?.focus();
    }, 1000);
  }
})();
