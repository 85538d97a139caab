// Throughput and memory: a bar for each cell, its number in a column beside it.
const MOST_BARS = 40;
const note = document.getElementById("bars-note");

const measured = ({ completed, speed, memory }) => completed && (speed || memory);

// All cells that are shown; of very many the fastest, in their own order.
function barred() {
  const shown = numbersShown().filter((number) => measured(cells[number]));
  if (shown.length <= MOST_BARS) return shown;
  const bySpeed = shown.toSorted((a, b) => (cells[b].speed?.[0] ?? 0) - (cells[a].speed?.[0] ?? 0));
  const fastest = new Set(bySpeed.slice(0, MOST_BARS));
  return shown.filter((number) => fastest.has(number));
}

function shortened(label, width) {
  const most = width < 480 ? 17 : 34;
  return label.length > most ? `${label.slice(0, most - 1)}…` : label;
}

function bars(element, key, size, unit, title) {
  const drawn = barred().filter((number) => cells[number][key]);
  const place = drawn.map((_, at) => at);
  const means = drawn.map((number) => cells[number][key][0] / size);
  const spreads = drawn.map((number) => (cells[number][key][1] ?? 0) / size);
  const shades = drawn.map(colourOf);
  const texts = drawn.map((number, at) =>
    digits(means[at]) + (cells[number][key][1] ? ` ± ${digits(spreads[at], 2)}` : ""));
  const trace = {
    type: "bar",
    orientation: "h",
    meta: { cells: drawn },
    y: place,
    x: means,
    error_x: { type: "data", array: spreads, visible: spreads.some((spread) => spread > 0), color: colour("ink"), thickness: 1.2, width: 3 },
    marker: {
      color: shades,
      line: { width: 0 },
      pattern: { shape: drawn.map((number) => patternOf(cells[number])), fillmode: "overlay", fgcolor: colour("card"), fgopacity: 0.55, size: 7, solidity: 0.28 },
    },
    customdata: texts,
    text: drawn.map((number) => heading(cells[number])),
    textposition: "none",
    hovertemplate: `%{text}<br>%{customdata} ${unit}<extra></extra>`,
  };
  const width = element.clientWidth;
  const column = Math.min(0.4, (Math.max(4, ...texts.map((text) => text.length)) * 7.2 + 14) / (width * 0.8));
  element.style.height = `${Math.max(4, drawn.length) * (drawn.length > 20 ? 20 : 27) + 60}px`;
  const numbersBeside = place.map((at) => ({
    xref: "paper", x: 1, xanchor: "right", y: at, text: texts[at], showarrow: false,
    font: { color: colour("ink"), size: 12.5 },
  }));
  Plotly.react(element, [trace], layout(
    element,
    axis(title, { rangemode: "tozero", domain: [0, 1 - column], nticks: 5, tickformat: "~s", fixedrange: true }),
    {
      autorange: false, range: [Math.max(4, drawn.length) - 0.4, -0.6], tickvals: place, fixedrange: true,
      ticktext: drawn.map((number) => plain(shortened(cells[number].label, width))), automargin: true,
      tickfont: { color: colour("ink") }, ticks: "outside", ticklen: 5, tickcolor: "rgba(0,0,0,0)", showgrid: false, zeroline: false,
    },
    { annotations: numbersBeside, margin: { l: 10, r: 4, t: 4, b: 40 }, bargap: 0.3 },
  ), { ...CONFIG, displayModeBar: false });
}

figure("speed-figure", (element) => bars(element, "speed", 1, "samples/s", "samples/s"));

const memories = cells.flatMap((cell) => (cell.memory ? [cell.memory[0]] : []));
const [byteUnit, byteSize] = fitting(BYTES, Math.max(0, ...memories));
figure("memory-figure", (element) => bars(element, "memory", byteSize, byteUnit, byteUnit));

figure("bars-note", () => {
  const count = numbersShown().filter((number) => measured(cells[number])).length;
  note.hidden = count <= MOST_BARS;
  note.textContent = `The ${MOST_BARS} fastest of ${count} cells; filter the cells to see others.`;
});
