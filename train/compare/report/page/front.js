// Memory against speed, with the cells that no other beats joined and named.
const LABEL_HEIGHT = 17;

// Labels that keep clear of each other and of the points: the first of four places that is free.
function placedLabels(element, points) {
  const { xaxis, yaxis } = element._fullLayout;
  const at = (point) => [xaxis.d2p(point.x), yaxis.d2p(point.y)];
  const taken = points.map((point) => {
    const [x, y] = at(point);
    return [x - 6, y - 6, x + 6, y + 6];
  });
  const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  return points.filter((point) => point.named).map((point) => {
    const [x, y] = at(point);
    const width = point.label.length * 6.9 + 4;
    const places = [];
    for (const down of [-9 - LABEL_HEIGHT, 9, -30 - LABEL_HEIGHT, 30, -52 - LABEL_HEIGHT, 52]) {
      for (const left of [-width - 2, 2, -width / 2]) {
        places.push([x + left, y + down, x + left + width, y + down + LABEL_HEIGHT]);
      }
    }
    const inside = (box) => box[0] >= -40 && box[2] <= xaxis._length && box[1] >= -28 && box[3] <= yaxis._length;
    const box = places.find((place) => inside(place) && !taken.some((other) => overlap(place, other))) ?? places[0];
    taken.push(box);
    return {
      x: xaxis.d2l(point.x), y: yaxis.d2l(point.y), text: plain(point.label), font: { color: colour("ink"), size: 12 },
      showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: colour("line"), standoff: 5,
      ax: (box[0] + box[2]) / 2 - x, ay: (box[1] + box[3]) / 2 - y,
    };
  });
}

figure("front-figure", (element) => {
  const both = numbersShown().filter((number) => cells[number].completed && cells[number].speed && cells[number].memory);
  const best = front.filter((number) => both.includes(number));
  const drawn = [...both.filter((number) => !best.includes(number)), ...best];
  const speeds = drawn.map((number) => cells[number].speed[0]);
  const memory = drawn.map((number) => cells[number].memory[0] / byteSize);
  const isWide = (values) => values.length > 1 && Math.max(...values) > 12 * Math.min(...values);
  const line = {
    meta: { front: best },
    x: best.map((number) => cells[number].memory[0] / byteSize),
    y: best.map((number) => cells[number].speed[0]),
    mode: "lines",
    line: { shape: "hv", color: colour("soft"), width: 1.4, dash: "3px,3px" },
    hoverinfo: "skip",
  };
  const dots = {
    meta: { cells: drawn },
    x: memory,
    y: speeds,
    mode: "markers",
    marker: {
      color: drawn.map(colourOf), symbol: drawn.map((number) => shapeOf(cells[number])), size: 12,
      line: { color: drawn.map((number) => (best.includes(number) ? colour("ink") : colour("card"))), width: 1.4 },
    },
    text: drawn.map((number) => heading(cells[number])),
    hovertemplate: `%{text}<br>%{y:,.4~g} samples/s · %{x:,.4~g} ${byteUnit}<extra></extra>`,
  };
  const view = layout(
    element,
    axis(`peak memory (${byteUnit})`, { tickformat: "~g", ...(isWide(memory) && { type: "log", dtick: "D2" }) }),
    axis("samples/s", { tickformat: "~s", ...(isWide(speeds) && { type: "log", dtick: "D2" }) }),
    { margin: { l: 48, r: 14, t: 34, b: 40 } },
  );
  const points = drawn.map((number, index) => ({
    x: memory[index], y: speeds[index], label: cells[number].label,
    named: best.slice(0, 12).includes(number),
  }));
  Plotly.react(element, [line, dots], view, CONFIG).then(() => {
    Plotly.relayout(element, { annotations: placedLabels(element, points) });
  });
});
