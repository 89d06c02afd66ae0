// Everything works without scripts. These keep a page current and make it faster to use.
import { startClock } from "./clock.js";
import { startLive } from "./live.js";
import { startKeys } from "./keys.js";
import { startForms } from "./forms.js";
import { startLog } from "./log.js";
import { startCharts } from "./charts.js";

const root = document.documentElement;
const cookiePath = root.dataset.base || "/";
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = `herdbeat_browser_zone=${encodeURIComponent(zone)};path=${cookiePath};max-age=31536000;samesite=strict`;

startClock();
startForms();
startKeys(cookiePath);
startLog();
startCharts();
// A page that answers a form cannot be fetched again, and nothing may change under a question.
if (!("still" in root.dataset) && document.querySelector("[data-live]")) startLive();
