// The builder: each change goes to the service with the file's text, and the page's parts come back.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  let waiting = 0, asked = 0;

  async function post(address, body) {
    const headers = { "content-type": "application/json", authorization: `Bearer ${localStorage.getItem("token") || ""}` };
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    const text = await answer.text();
    if (answer.ok) { at("said").textContent = ""; return text; }
    at("said").textContent = nodes(text).querySelector("main p")?.textContent || `the service answered ${answer.status}`;
    return null;
  }

  const nodes = (text) => new DOMParser().parseFromString(text, "text/html").body;

  async function ask(address, body) {
    const text = await post(address, body);
    return text === null ? null : [...nodes(text).childNodes];
  }

  // What has the focus keeps it, though the parts are new. What was removed leaves it to what adds another.
  const named = (node) => node?.dataset?.set || (node?.dataset?.action ? node.dataset.action + node.dataset.arguments : "");

  function focus(name, action) {
    const parts = [...document.querySelectorAll("#parts [data-set], #parts [data-action]")];
    const adding = action.replace("remove", "add");
    (parts.find((node) => named(node) === name) || parts.find((node) => node.dataset.action === adding))?.focus();
  }

  async function edit(action, given, text = at("text").value) {
    const focused = named(document.activeElement), open = document.querySelector("#parts details").open;
    const parts = await ask("builder/parts", { text, action, arguments: given });
    if (!parts) return;
    at("parts").replaceChildren(...parts);
    document.querySelector("#parts details").open = open;
    if (focused) focus(focused, action);
    clearTimeout(waiting);
    ++asked; // an answer that is on its way is of the graph before
    busy(at("problem").hidden);
    waiting = setTimeout(predict, 600);
  }

  function busy(now) {
    if (now) at("prediction").setAttribute("aria-busy", "true");
    else at("prediction").removeAttribute("aria-busy");
  }

  async function predict() {
    if (!at("problem").hidden) return;
    const mine = ++asked;
    busy(true);
    const parts = await ask("builder/prediction", { text: at("text").value });
    if (mine !== asked) return;
    busy(false);
    if (parts) at("prediction").replaceChildren(...parts);
  }

  at("parts").addEventListener("change", (event) => {
    const field = event.target;
    if (field.id === "text") edit("none", [], field.value);
    else if (field.dataset.set) edit("set", [field.value, ...JSON.parse(field.dataset.set)]);
    else if (field.dataset.action) edit(field.dataset.action, [...JSON.parse(field.dataset.arguments), field.value]);
  });
  at("parts").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    const from = button.dataset.from ? button.dataset.from.split(" ").map((id) => at(id).value) : JSON.parse(button.dataset.arguments);
    edit(button.dataset.action, from);
  });
  at("predict").addEventListener("click", predict);
  at("file").addEventListener("change", async (event) => { if (event.target.files[0]) edit("none", [], await event.target.files[0].text()); });
  at("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([at("text").value], { type: "application/yaml" }));
    link.download = "experiment.yaml";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  at("optimise").addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = event.target.elements;
    const file = await post("builder/optimised", { text: at("text").value, arguments: [fields.tuner.value] });
    if (file !== null) window.harness.together("together", [file], fields.simulated.checked);
  });
  at("run").addEventListener("submit", () => { at("run-file").value = at("text").value; }, true);
})();
