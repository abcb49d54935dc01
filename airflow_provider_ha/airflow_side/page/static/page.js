// Times in the viewer's zone, and a page that refreshes itself without losing focus or scroll position.
(() => {
  "use strict";
  const EVERY = 5000;
  const pad = (value) => String(value).padStart(2, "0");
  const clock = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;

  const localize = (within) => {
    for (const element of within.querySelectorAll("time[datetime]:not([data-ago])")) {
      const at = new Date(element.getAttribute("datetime"));
      element.textContent = `${day(at)} ${clock(at)}`;
    }
    for (const element of within.querySelectorAll("text[data-at]")) {
      const at = new Date(element.dataset.at);
      element.textContent = `${day(at).slice(5)} ${clock(at).slice(0, 5)}`;
    }
  };

  const keyed = (within, element) => {
    const name = element.id ? `#${CSS.escape(element.id)}` : element.dataset.key && `[data-key="${CSS.escape(element.dataset.key)}"]`;
    return name ? within.querySelector(name) : null;
  };

  // The whole answer passes the parser and was escaped by the server. A part that it lacks stays, and is old.
  const replace = (fresh) => {
    let changed = false;
    const missing = [];
    for (const region of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(region.id);
      if (!next) {
        missing.push(region.id);
        continue;
      }
      localize(next);
      if (next.innerHTML === region.innerHTML) continue;
      for (const open of region.querySelectorAll("details[open]")) {
        const same = keyed(next, open);
        if (same) same.open = true;
      }
      const atEnd = region.scrollTop + region.clientHeight >= region.scrollHeight - 4;
      const focused = region.contains(document.activeElement) ? document.activeElement : null;
      region.replaceChildren(...Array.from(next.childNodes, (node) => document.importNode(node, true)));
      if (atEnd && "end" in region.dataset) region.scrollTop = region.scrollHeight;
      const again = focused && keyed(region, focused);
      if (again) again.focus({ preventScroll: true });
      changed = true;
    }
    if (changed) document.dispatchEvent(new CustomEvent("pagechange"));
    if (missing.length) throw new Error(`the answer lacks a part of this page (${missing.join(", ")}): load it again`);
  };

  // Airflow's frame opens no link outside itself. The page around the frame, of the same origin, follows it instead.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[target]");
    if (!link || window.parent === window) return;
    try {
      const outside = window.parent.document.createElement("a");
      Object.assign(outside, { href: link.href, target: link.target, rel: "noopener noreferrer" });
      event.preventDefault();
      outside.click();
    } catch {
      // a page of another origin: the browser decides
    }
  });

  localize(document);
  for (const region of document.querySelectorAll("[data-end]")) region.scrollTop = region.scrollHeight;
  const button = document.getElementById("refresh");
  const status = document.getElementById("refreshed");
  if (!button || !status) return;
  let last = new Date();
  let busy = false;
  const on = () => button.getAttribute("aria-pressed") === "true";

  const refresh = async () => {
    if (busy || !on() || document.hidden || !document.getSelection().isCollapsed) return;
    busy = true;
    try {
      const answer = await fetch(window.location.href, { signal: AbortSignal.timeout(20000), cache: "no-store" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) throw new Error(fresh.querySelector("h1")?.textContent || `status ${answer.status}`);
      replace(fresh);
      last = new Date();
      status.textContent = "";
      status.classList.remove("stale");
      document.body.classList.remove("stale");
    } catch (error) {
      const text = `Not refreshed since ${clock(last)}: ${error.message}`;
      if (status.textContent !== text) status.textContent = text;
      status.classList.add("stale");
      document.body.classList.add("stale");
    } finally {
      busy = false;
    }
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(!on()));
    refresh();
  });
  window.setInterval(refresh, EVERY);
})();
