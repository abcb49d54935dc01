// Times in the viewer's zone.
(() => {
  "use strict";
  const localize = (within) => {
    for (const element of within.querySelectorAll("time[datetime]:not([data-ago])")) {
      const at = new Date(element.dateTime);
      const pad = (value) => String(value).padStart(2, "0");
      element.textContent =
        `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
        `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
    }
  };
  localize(document);
})();
