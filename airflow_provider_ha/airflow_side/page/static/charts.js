// Draws each chart from the table of figures, so that both agree, on the axis of the timeline above.
(() => {
  "use strict";
  const COLORS = 4;
  const DASHES = [[], [8, 4], [2, 3]];
  const TICKS = 4;
  const drawn = new Map();
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const pad = (value) => String(value).padStart(2, "0");
  const written = (seconds) => {
    const at = new Date(seconds * 1000);
    return `${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}`;
  };
  const figure = (value) => value.toLocaleString("en", { notation: value >= 100000 ? "compact" : "standard", maximumFractionDigits: 2 });
  const facts = () => {
    const given = document.getElementById("chart-axis").dataset;
    return { begin: Number(given.begin), end: Number(given.end), gap: Number(given.gap) };
  };
  const names = () => Array.from(document.querySelectorAll("#chart-facts [data-series]"), (each) => each.textContent);

  // For each query: its points by time, and null where its line stops.
  const read = (name, queries, gap) => {
    const points = queries.map(() => new Map());
    for (const cell of document.querySelectorAll(`#figures td[data-name="${name}"]`)) {
      const row = cell.parentElement;
      if (cell.dataset.value !== "") points[Number(row.dataset.series)].set(Number(row.dataset.at), Number(cell.dataset.value));
    }
    for (const own of points) {
      const times = [...own.keys()].sort((a, b) => a - b);
      times.forEach((at, position) => {
        if (position && at - times[position - 1] > gap) own.set(times[position - 1] + 1, null);
      });
    }
    const x = [...new Set(points.flatMap((own) => [...own.keys()]))].sort((a, b) => a - b);
    return [x, ...points.map((own) => x.map((at) => own.get(at)))];
  };

  const options = (place, reading, queries) => {
    const axis = { stroke: style("--soft"), grid: { stroke: style("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const quarters = () => {
      const { begin, end } = facts();
      return Array.from({ length: TICKS + 1 }, (_, number) => begin + (number * (end - begin)) / TICKS);
    };
    return {
      width: place.clientWidth,
      height: 132,
      padding: [8, parseInt(style("--axis-right"), 10), 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false, setScale: false }, y: false },
      scales: {
        x: { time: true, range: () => [facts().begin, facts().end] },
        y: { range: (_, lowest, highest) => [0, highest > 0 ? highest * 1.1 : 1] },
      },
      axes: [
        { ...axis, size: 28, splits: quarters, values: (_, ticks) => ticks.map((at, number) => (number % TICKS ? written(at) : "")) },
        { ...axis, size: parseInt(style("--axis-left"), 10), values: (_, ticks) => ticks.map(figure) },
      ],
      series: [
        {},
        ...queries.map((query, number) => ({
          label: query,
          stroke: style(`--series-${(number % COLORS) + 1}`),
          dash: DASHES[Math.floor(number / COLORS) % DASHES.length],
          width: 2,
          points: { size: 5 },
        })),
      ],
      hooks: {
        setCursor: [
          (plot) => {
            const at = plot.cursor.idx;
            const shown = plot.cursor.left < 0 || at == null ? [] : queries.filter((_, number) => plot.data[number + 1][at] != null);
            const said = shown.map((query) => `${query} ${figure(plot.data[queries.indexOf(query) + 1][at])}`);
            reading.textContent = said.length ? `${written(plot.data[0][at])}: ${said.join(", ")}` : "";
          },
        ],
      },
    };
  };

  const draw = (element, again) => {
    const queries = names();
    const name = element.dataset.chart;
    const data = read(name, queries, facts().gap);
    element.hidden = data[0].length === 0;
    const known = drawn.get(name);
    const same = known && known.queries === JSON.stringify(queries) && !again;
    if (!element.hidden && same) {
      known.plot.setData(data);
      return;
    }
    known?.plot.destroy();
    drawn.delete(name);
    if (element.hidden) return;
    const place = element.querySelector(".plot");
    const plot = new uPlot(options(place, element.querySelector(".reading"), queries), data, place);
    drawn.set(name, { plot, queries: JSON.stringify(queries) });
  };

  const drawAll = (again) => {
    document.getElementById("figures-details").hidden = names().length === 0;
    for (const element of document.querySelectorAll("figure[data-chart]")) draw(element, again);
  };
  let pending = 0;
  window.addEventListener("resize", () => {
    window.clearTimeout(pending);
    pending = window.setTimeout(() => drawAll(true), 150);
  });
  document.addEventListener("themechange", () => drawAll(true));
  document.addEventListener("pagechange", () => drawAll(false));
  drawAll(true);
})();
