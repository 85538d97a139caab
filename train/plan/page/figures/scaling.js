// Lines over the number of ranks, one for all cells that differ in nothing else.
const worlds = distinct(cells.map((cell) => cell.ranks)).sort((a, b) => a - b);

// Of very many numbers of ranks each second, third... is written.
const written = worlds.filter((_, at) => at % Math.ceil(worlds.length / 10) === 0);

function linesOver(value, hint) {
  const drawn = numbersShown().filter((number) => value(number) !== null);
  return distinct(drawn.map(lineOf)).map((line) => {
    const members = drawn.filter((number) => lineOf(number) === line)
      .toSorted((a, b) => cells[a].ranks - cells[b].ranks);
    const first = cells[members[0]];
    const stroke = colourOf(members[0]);
    const hollow = (number) => (cells[number].state === "too large" ? "-open" : "");
    return {
      name: line,
      meta: { cells: members },
      mode: "lines+markers",
      x: members.map((number) => cells[number].ranks),
      y: members.map(value),
      line: { color: stroke, width: 2, dash: dashOf(first) },
      marker: {
        color: stroke, line: { color: stroke, width: 1.6 }, symbol: members.map((number) => shapeOf(first) + hollow(number)),
        size: members.map((number) => (cells[number].best ? 13 : 8)),
      },
      text: members.map((number) => heading(cells[number])),
      hovertemplate: `%{text}<br>${hint}<extra></extra>`,
    };
  });
}

function over(identifier, value, title, hint, more = {}, limit = null) {
  figure(identifier, (element) => {
    element.parentElement.hidden = every.every((number) => value(number) === null);
    if (element.parentElement.hidden) return;
    const shapes = limit === null ? [] : [{
      type: "line", xref: "paper", x0: 0, x1: 1, y0: limit, y1: limit, line: { color: colour("ink"), width: 1.4, dash: "dash" },
    }];
    Plotly.react(element, linesOver(value, hint), layout(
      element,
      axis("ranks", { type: "log", tickvals: written, ticktext: written.map((ranks) => ranks.toLocaleString("en")) }),
      axis(title, { type: "log", tickformat: "~g", dtick: "D2", ...more }),
      { shapes, margin: { l: 48, r: 14, t: 12, b: 40 } },
    ), CONFIG);
  });
}

const devices = distinct(cells.map((cell) => cell.device));
const perSecond = (number) => (cells[number].sample === null ? null : 1 / cells[number].sample);
const ofRank = (number) => perSecond(number) / cells[number].ranks;

function efficiency(number) {
  if (perSecond(number) === null) return null;
  const line = every.filter((other) => lineOf(other) === lineOf(number) && cells[other].sample);
  const fewest = line.reduce((a, b) => (cells[b].ranks < cells[a].ranks ? b : a));
  return ofRank(number) / ofRank(fewest);
}

over("scaling-memory", (number) => cells[number].peak / memorySize, memoryUnit, `%{y:,.3~g} ${memoryUnit}`, {},
  devices.length === 1 && devices[0] !== null ? devices[0] / memorySize : null);
over("scaling-speed", perSecond, "samples/s", "%{y:,.4~g} samples/s", { tickformat: "~s" });
over("scaling-step", (number) => cells[number].step, "s", "%{y:,.4~g} s");
over("scaling-share", efficiency, "", "%{y:.1%}", { type: "linear", tickformat: ".0%", rangemode: "tozero", dtick: 0.2 });
