// A chart that is wider than the screen begins with the newest, except the steps of a run, and the names of its rows stay in sight.
export function startCharts() {
  document.addEventListener("scroll", ({ target }) => {
    const chart = target.querySelector?.(":scope > .timeline");
    for (const name of chart?.querySelectorAll(".row-label, .row-heading") || []) {
      name.setAttribute("x", (target.scrollLeft * chart.viewBox.baseVal.width) / chart.clientWidth);
    }
  }, true);
  for (const box of document.querySelectorAll(":not(#steps) > .chart-box")) box.scrollLeft = box.scrollWidth;
}
