// Bars of several layers, one for each cell, with a number in a column beside it.
const { parts, batches } = JSON.parse(document.getElementById("data").textContent);

const UNITS = [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]];
const SECONDS = [["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
const SIGNS = { "too large": ["✕ ", "bad"], tight: ["! ", "warn"], fits: ["", "ink"] };
const sign = (cell) => (cell.best ? ["★ ", "good"] : SIGNS[cell.state]);

// Layers are told apart by lightness and pattern too.
const shade = (name) => COLOURS[name][isDark() ? 1 : 0];

function layerOf(layer, drawn, place, size, unit) {
  const values = drawn.map((number) => (layer.value(cells[number]) ?? 0) / size);
  return {
    type: "bar",
    orientation: "h",
    name: layer.name,
    meta: { cells: drawn },
    y: place,
    x: values,
    marker: {
      color: shade(layer.look),
      line: { width: 1, color: colour("card") },
      pattern: { shape: layer.pattern ?? "", fillmode: "overlay", fgcolor: colour("card"), fgopacity: 0.5, size: 7, solidity: 0.25 },
    },
    customdata: values.map((value) => `${digits(value, 3)} ${unit}`),
    text: drawn.map((number) => heading(cells[number])),
    textposition: "none",
    hovertemplate: "%{text}<br>%{customdata} %{fullData.name}<extra></extra>",
  };
}

// `limits` are lines across bars: a value for each cell, or null.
function stacked(element, drawn, layers, { total, size, unit, limits = [] }) {
  const place = drawn.map((_, at) => at);
  const width = element.clientWidth;
  const texts = drawn.map((number) => sign(cells[number])[0] + digits(total(cells[number]) / size, 3));
  const longest = Math.max(4, ...texts.map((text) => text.length));
  const column = Math.min(0.4, (longest * 8 + 14) / (width * 0.8));
  element.style.height = `${Math.max(3, drawn.length) * (drawn.length > 20 ? 20 : 27) + 110}px`;
  const most = Math.max(0, ...drawn.map((number) => total(cells[number]) / size));
  const lines = limits.flatMap((limit, at) =>
    // One that is far beyond all bars would make them small.
    (limit === null || limit / size > 3 * most ? [] : [{
      type: "line", x0: limit / size, x1: limit / size, y0: at - 0.5, y1: at + 0.5,
      line: { color: colour("ink"), width: 2 },
    }]));
  const end = 1.04 * Math.max(most, ...lines.map(({ x0 }) => x0));
  const short = (label) => (width < 480 && label.length > 17 ? `${label.slice(0, 16)}…` : label);
  Plotly.react(element, layers.map((layer) => layerOf(layer, drawn, place, size, unit)), layout(
    element,
    axis(unit, { range: [0, end || 1], domain: [0, 1 - column], nticks: 6, fixedrange: true }),
    {
      autorange: false, range: [Math.max(3, drawn.length) - 0.4, -0.6], tickvals: place, fixedrange: true, automargin: true,
      ticktext: drawn.map((number) => plain(short(cells[number].label))), tickfont: { color: colour("ink") },
      ticks: "outside", ticklen: 5, tickcolor: "rgba(0,0,0,0)", showgrid: false, zeroline: false,
    },
    {
      barmode: "stack",
      bargap: 0.3,
      shapes: lines,
      annotations: drawn.map((number, at) => ({
        xref: "paper", x: 1, xanchor: "right", y: at, text: texts[at], showarrow: false,
        font: { color: colour(sign(cells[number])[1]), size: 12.5 },
      })),
      showlegend: true,
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal", font: { color: colour("ink") } },
      margin: { l: 10, r: 4, t: 50, b: 40 },
    },
  ), { ...CONFIG, displayModeBar: false });
}
