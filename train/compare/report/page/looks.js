// One look for a cell in all figures: colour is the strategy, dash, shape and pattern the precision.
// Families share a hue and differ in lightness, so that they are told apart without colour vision.
const COLOURS = {
  single: ["#3d4a5c", "#d7dee8"],
  dp: ["#56b4e9", "#a5d8ff"],
  ddp: ["#0072b2", "#4c9df0"],
  fsdp: ["#d55e00", "#ff8a4c"],
  hsdp: ["#e0a100", "#ffd166"],
  zero1: ["#62c3a2", "#b5ead7"],
  zero2: ["#159570", "#4fd1a5"],
  zero3: ["#005a42", "#1f9d78"],
  pipeline: ["#b0488f", "#e879b9"],
};
const DASHES = { fp32: "solid", bf16: "6px,3px", fp16: "2px,2px" };
const SHAPES = { fp32: "circle", bf16: "diamond", fp16: "square" };
const PATTERNS = { fp32: "", bf16: "/", fp16: "." };

const distinct = (values) => [...new Set(values)];
const strategies = distinct(cells.map((cell) => cell.parallel));
const precisions = distinct(cells.map((cell) => cell.precision));

// A strategy of the user's own takes a colour that no other has here.
const spare = Object.keys(COLOURS).filter((name) => !strategies.includes(name)).reverse();
const names = {};
for (const strategy of strategies) {
  names[strategy] = COLOURS[strategy] ? strategy : spare.pop() || "single";
}

// Cells of one strategy and precision that differ in other keys are lighter one after the other.
// With a single strategy the colours are free for them. Cells of one line look the same.
const lineOf = (number) => cells[number].line ?? number;
const alike = cells.map((cell) => distinct(
  cells.flatMap((other, number) =>
    other.parallel === cell.parallel && other.precision === cell.precision ? [lineOf(number)] : [])));

function colourOf(number) {
  const cell = cells[number];
  const place = alike[number].indexOf(lineOf(number));
  const count = alike[number].length;
  const shade = isDark() ? 1 : 0;
  const own = COLOURS[names[cell.parallel]][shade];
  if (count === 1) return own;
  const all = Object.values(COLOURS);
  if (strategies.length === 1 && count <= all.length) return all[place][shade];
  return mixed(own, isDark() ? "#161b23" : "#ffffff", (0.6 * place) / (count - 1));
}

function mixed(from, to, share) {
  const channel = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const part = (at) => Math.round(channel(from, at) * (1 - share) + channel(to, at) * share);
  return `rgb(${part(1)},${part(3)},${part(5)})`;
}

const banded = cells.filter((cell) => cell.train?.low).length;

// For a band behind a curve; of many that lie over each other, each is fainter.
const faint = (shade) => {
  const parts = shade.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(shade.slice(at, at + 2), 16))
    : shade.match(/\d+/g);
  return `rgba(${parts.join(",")},${Math.max(0.025, 0.3 / (banded + 1))})`;
};

const dashOf = (cell) => DASHES[cell.precision] ?? "8px,3px,2px,3px";
const shapeOf = (cell) => SHAPES[cell.precision] ?? "triangle-up";
const patternOf = (cell) => PATTERNS[cell.precision] ?? "x";

// A short piece of a cell's line, for legends and tables.
function swatch(stroke, dash) {
  const pattern = dash === "solid" ? "none" : dash.replaceAll("px", "");
  return `<svg viewBox="0 0 26 10" aria-hidden="true"><path d="M0 5H26" fill="none" stroke="${stroke}" ` +
    `stroke-width="2.5" stroke-dasharray="${pattern}"/></svg>`;
}
