// What all figures share: fonts, axes, hover labels.
const isTouch = matchMedia("(pointer: coarse)").matches;
const CONFIG = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  displayModeBar: isTouch ? false : "hover",
  // Named one by one: plotly.js would add one that sends the figure to a server.
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
};

// Text from the record is never read as markup by Plotly.
const plain = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function axis(title, more = {}) {
  return {
    title: { text: title, standoff: 8 },
    gridcolor: colour("grid"),
    linecolor: colour("line"),
    zeroline: false,
    automargin: true,
    ...more,
  };
}

function layout(element, xaxis, yaxis, more = {}) {
  const style = getComputedStyle(document.body);
  return {
    xaxis,
    yaxis,
    width: element.clientWidth,
    height: element.clientHeight,
    showlegend: false,
    hovermode: "closest",
    // A finger that scrolls the page does not draw a box in it.
    dragmode: isTouch ? false : "zoom",
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: style.fontFamily, size: 12.5, color: colour("soft") },
    hoverlabel: {
      bgcolor: colour("card"),
      bordercolor: colour("soft"),
      align: "left",
      font: { family: style.fontFamily, size: 13, color: colour("ink") },
    },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("accent") },
    margin: { l: 48, r: 10, t: 12, b: 40 },
    ...more,
  };
}

// Register a figure of the page, if the page has it.
function figure(identifier, draw) {
  const element = document.getElementById(identifier);
  if (element) drawings.push(() => draw(element));
}

const heading = (cell) =>
  `<b>${plain(cell.label)}</b>` + (cell.reference ? " (reference)" : "") +
  (cell.note ? `<br><i>${plain(cell.note)}</i>` : "");

const BYTES = [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]];
const fitting = (units, value) => units.findLast(([, size]) => value >= size) ?? units[0];
const digits = (value, count = 4) =>
  value.toLocaleString("en", { minimumSignificantDigits: count, maximumSignificantDigits: count });
