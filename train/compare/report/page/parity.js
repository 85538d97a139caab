// Each cell's training loss against the reference's, step by step.
const relatives = cells.flatMap((cell) => cell.parity?.relative ?? []).filter((value) => value > 0);
// Equal losses have no logarithm: they lie on a line of their own below all others.
const lowest = Math.min(same, ...relatives);
const equalAt = 10 ** (Math.floor(Math.log10(lowest)) - 1);
const someEqual = cells.some((cell) => cell.parity?.relative.includes(0));
const isLog = () => chosen.difference === "relative";

function parityTrace(number) {
  const cell = cells[number];
  const { step, signed, relative } = cell.parity;
  return {
    meta: { cell: number },
    name: plain(cell.label),
    x: step,
    y: isLog() ? relative.map((value) => (value === 0 ? equalAt : value)) : signed,
    customdata: step.map((_, at) => [
      signed[at] === null ? "not finite" : `${signed[at] > 0 ? "+" : ""}${signed[at].toExponential(2)}`,
      relative[at] === null ? "" : ` (${relative[at].toExponential(2)} of the reference's)`,
    ]),
    visible: isShown(number),
    mode: step.length === 1 ? "markers" : "lines",
    line: { color: colourOf(number), dash: dashOf(cell), width: 1.6 },
    marker: { color: colourOf(number), symbol: shapeOf(cell), size: 7 },
    hovertemplate: `${heading(cell)}<br>step %{x:,d}<br>loss %{customdata[0]}%{customdata[1]}` +
      `${cell.seeds > 1 ? "<br>largest over seeds" : ""}<extra></extra>`,
  };
}

function ticks() {
  const top = Math.ceil(Math.log10(Math.max(same, ...relatives)));
  const bottom = Math.log10(equalAt);
  const stride = Math.ceil((top - bottom) / 8);
  const exponents = [];
  for (let exponent = top; exponent > bottom; exponent -= stride) exponents.push(exponent);
  return {
    tickvals: [...exponents.map((exponent) => 10 ** exponent), ...(someEqual ? [equalAt] : [])],
    ticktext: [...exponents.map((exponent) => (exponent === 0 ? "1" : `1e${exponent}`.replace("-", "−"))), ...(someEqual ? ["equal"] : [])],
    range: [someEqual ? bottom - 0.3 : bottom + 0.7, top + 0.15],
  };
}

figure("parity-figure", (element) => {
  const traces = cells.flatMap((cell, number) => (cell.parity ? [parityTrace(number)] : []));
  const yaxis = isLog()
    ? axis("|Δ loss| / reference's loss", { type: "log", ...ticks() })
    : axis("loss − reference's loss", { zeroline: true, zerolinecolor: colour("soft"), tickformat: "~g" });
  const limit = {
    type: "line", xref: "paper", x0: 0, x1: 1, y0: same, y1: same,
    line: { color: colour("bad"), width: 1, dash: "4px,4px" },
  };
  const label = {
    xref: "paper", x: 1, y: Math.log10(same), text: "1e−5: the same in fp32",
    showarrow: false, xanchor: "right", yanchor: "bottom", bgcolor: colour("card"), font: { size: 11.5, color: colour("bad") },
  };
  const marks = isLog() ? { shapes: [limit], annotations: [label] } : {};
  Plotly.react(element, traces, layout(element, axis("step", { tickformat: ",d" }), yaxis, {
    ...marks, uirevision: chosen.difference,
  }), CONFIG);
});
