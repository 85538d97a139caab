// What the page knows and what its reader has chosen. Figures read it and never change it.
const { cells, front, same } = JSON.parse(document.getElementById("data").textContent);

const chosen = { x: "step", kind: "both", y: "linear", difference: "relative" };
const hidden = new Set();
let matches = () => true;

const isShown = (number) => !hidden.has(number) && matches(number);
const numbersShown = () => cells.map((_, number) => number).filter(isShown);

// Each figure, legend or table adds what it does when something was chosen.
const drawings = [];
const redraw = () => drawings.forEach((draw) => draw());
