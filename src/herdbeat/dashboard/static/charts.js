// A chart that is wider than the screen begins with the newest, and the steps of a run with the first one. Its names and
// values stay in sight.
const STEP_NAMES = 210; // the width of the names, in units of the chart

export function startCharts() {
  document.addEventListener("scroll", ({ target }) => {
    const chart = target.querySelector?.(":scope > .chart");
    for (const text of chart?.querySelectorAll(".row-label, .row-heading, .value") || []) {
      text.setAttribute("dx", (target.scrollLeft * chart.viewBox.baseVal.width) / chart.clientWidth);
    }
  }, true);
  for (const box of document.querySelectorAll(":not(#steps) > .chart-box")) box.scrollLeft = box.scrollWidth;
  for (const bar of document.querySelectorAll("#steps .chart-box rect:first-of-type")) {
    const chart = bar.ownerSVGElement;
    chart.parentElement.scrollLeft = ((bar.x.baseVal.value - STEP_NAMES) * chart.clientWidth) / chart.viewBox.baseVal.width;
    break;
  }
}
