// Before the first paint: the theme of the Airflow page around this one, else that of the system.
(() => {
  "use strict";
  const root = document.documentElement;
  const around = () => {
    try {
      return window.parent !== window ? window.parent.document.documentElement : null;
    } catch {
      return null; // a page of another origin: it may not be read
    }
  };
  const named = (element) => {
    if (!element) return null;
    if (element.classList.contains("dark")) return "dark";
    if (element.classList.contains("light")) return "light";
    return element.dataset.theme || null;
  };
  const stored = () => {
    try {
      return window.localStorage.getItem("theme"); // as Airflow's own pages keep it
    } catch {
      return null;
    }
  };
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const wanted = named(around()) || stored();
    const theme = wanted === "dark" || wanted === "light" ? wanted : system.matches ? "dark" : "light";
    if (root.dataset.theme !== theme) {
      root.dataset.theme = theme;
      document.dispatchEvent(new CustomEvent("themechange"));
    }
  };
  apply();
  system.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  const parent = around();
  if (parent) {
    new MutationObserver(apply).observe(parent, { attributes: true, attributeFilter: ["class", "data-theme"] });
  }
})();
