// How far a theatre is, as the service says it: server-sent events, put on the page as text.
"use strict";

const live = document.getElementById("live");

function show(name, value) {
  const place = live.querySelector(`[data-live="${name}"]`);
  if (place) place.textContent = String(value);
}

if (live && live.dataset.over !== "yes" && "EventSource" in window) {
  const source = new EventSource(live.dataset.events);
  const take = (event) => {
    const theatre = JSON.parse(event.data);
    const waits = theatre.pending_steps.length > 0 || theatre.run?.status === "waiting_budget";
    const isNew = (theatre.run && live.dataset.runs === "no") || (theatre.usage && !live.querySelector('[data-live="calls"]'));
    // The page has other parts then: outcome, rubric, progress. What it has already is not loaded again.
    if (event.type === "end" || `${waits}` !== live.dataset.waits || isNew) {
      source.close();
      location.reload();
      return;
    }
    if (!theatre.run) return;
    show("progress", theatre.run.progress);
    show("total", theatre.run.total);
    show("failures", theatre.run.failures);
    const bar = live.querySelector('[data-live="bar"]');
    bar.max = theatre.run.total || 1;
    bar.value = theatre.run.progress;
    if (!theatre.usage) return;
    const { latency_ms, cost_usd, ...counts } = theatre.usage;
    const used = { ...counts, cost_usd: cost_usd ?? "unknown", ...latency_ms };
    for (const [name, value] of Object.entries(used)) show(name, value);
  };
  for (const name of ["state", "progress", "hitl", "budget", "end"]) source.addEventListener(name, take);
}
