// A chart that is wider than the screen begins with the newest, except the steps of a run. Its names and values stay in sight.
export function startCharts() {
  document.addEventListener("scroll", ({ target }) => {
    const chart = target.querySelector?.(":scope > .chart");
    for (const text of chart?.querySelectorAll(".row-label, .row-heading, .value") || []) {
      text.setAttribute("dx", (target.scrollLeft * chart.viewBox.baseVal.width) / chart.clientWidth);
    }
  }, true);
  for (const box of document.querySelectorAll(":not(#steps) > .chart-box")) box.scrollLeft = box.scrollWidth;
}
