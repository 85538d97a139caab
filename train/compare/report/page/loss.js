// Training and validation losses against step, samples or tokens, and wall time.
const curves = cells.flatMap((cell) => [cell.train, cell.validation]).filter(Boolean);
const haveTokens = curves.length > 0 && curves.every((curve) => curve.tokens.some((n) => n !== null));
const longest = Math.max(0, ...curves.map((curve) => curve.seconds.at(-1) ?? 0));
const TIMES = [["s", 1], ["min", 60], ["h", 3600], ["days", 86400]];
const [timeUnit, timeSize] = fitting(TIMES, longest / 3);

for (const button of document.querySelectorAll('button[value="consumed"]')) {
  button.textContent = haveTokens ? "tokens" : "samples";
}

function duration(seconds) {
  const [unit, size] = fitting(TIMES, seconds);
  return `${(seconds / size).toLocaleString("en", { maximumSignificantDigits: 3 })} ${unit}`;
}

function along(curve) {
  if (chosen.x === "step") return curve.step;
  if (chosen.x === "consumed") return haveTokens ? curve.tokens : curve.samples;
  return curve.seconds.map((seconds) => seconds / timeSize);
}

const X_AXES = {
  step: () => axis("step", { tickformat: ",d", rangemode: "nonnegative" }),
  consumed: () => axis(haveTokens ? "tokens" : "samples", { tickformat: "~s", rangemode: "nonnegative" }),
  seconds: () => axis(`wall time since the run's start (${timeUnit})`, { rangemode: "nonnegative" }),
};

// Curves that coincide are all seen: those drawn first are wider than those drawn over them.
const FEW = 12;
function widthOf(number) {
  return cells.length > FEW ? 1.5 : 1.6 + (3.4 * (cells.length - 1 - number)) / Math.max(1, cells.length - 1);
}

function lossTrace(number, kind) {
  const cell = cells[number];
  const curve = cell[kind];
  const isValidation = kind === "validation";
  const shade = colourOf(number);
  const seeds = cell.seeds > 1 ? `<br>mean of ${cell.seeds} seeds` : "";
  const many = curve.step.length > 40;
  return {
    meta: { cell: number, kind },
    name: `${plain(cell.label)}, ${kind}`,
    x: along(curve),
    y: curve.loss,
    customdata: curve.step.map((step, at) => [step, curve.samples[at], duration(curve.seconds[at])]),
    visible: isShown(number) && (chosen.kind === "both" || chosen.kind === kind),
    mode: isValidation ? (many ? "lines" : "lines+markers") : curve.step.length === 1 ? "markers" : "lines",
    opacity: isValidation || chosen.kind !== "both" ? 1 : 0.62,
    line: { color: shade, dash: dashOf(cell), width: widthOf(number) + (isValidation ? 0.6 : 0) },
    marker: { color: shade, symbol: shapeOf(cell), size: 7, line: { color: colour("card"), width: 1 } },
    hovertemplate: `${heading(cell)}<br>${kind === "train" ? "training" : kind} loss <b>%{y:.5f}</b>` +
      `<br>step %{customdata[0]:,d} · %{customdata[1]:,d} samples · %{customdata[2]}${seeds}<extra></extra>`,
  };
}

// The range over seeds, behind the curves: there and back again as one outline.
function bandTrace(number, kind) {
  const curve = cells[number][kind];
  const x = along(curve);
  const whole = x.map((_, at) => at).filter((at) => curve.low[at] !== null);
  const back = whole.toReversed();
  return {
    meta: { cell: number, kind: "band" },
    x: [...whole.map((at) => x[at]), ...back.map((at) => x[at])],
    y: [...whole.map((at) => curve.high[at]), ...back.map((at) => curve.low[at])],
    visible: isShown(number) && (chosen.kind === "both" || chosen.kind === kind),
    mode: "lines",
    line: { width: 0 },
    fill: "toself",
    fillcolor: faint(colourOf(number)),
    hoverinfo: "skip",
  };
}

figure("loss-figure", (element) => {
  const traces = [];
  for (const kind of ["train", "validation"]) {
    const drawn = cells.map((_, number) => number).filter((number) => cells[number][kind]);
    traces.push(...drawn.filter((number) => cells[number][kind].low).map((number) => bandTrace(number, kind)));
    traces.push(...drawn.map((number) => lossTrace(number, kind)));
  }
  const yaxis = axis("loss", { type: chosen.y, hoverformat: ".5f", ...(chosen.y === "log" && { dtick: "D1" }) });
  Plotly.react(element, traces, layout(element, X_AXES[chosen.x](), yaxis, { uirevision: chosen.x + chosen.y }), CONFIG);
});
