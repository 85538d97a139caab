// What a step takes, by what it does; by sample where steps have different numbers of them.
const TIME_LAYERS = [
  ["compute", "computes", "ddp", ""],
  ["wait", "waits for links", "fsdp", "/"],
  ["update", "updates", "zero1", "x"],
  ["overhead", "overhead", "zero3", "."],
];
chosen.per = batches ? "sample" : "step";
const perSwitch = document.querySelector('[data-sets="per"]');
if (perSwitch) perSwitch.parentElement.hidden = !batches;

figure("time-figure", (element) => {
  const drawn = numbersShown().filter((number) => cells[number].time);
  const by = (cell) => (chosen.per === "sample" ? cell.samples : 1);
  const total = (cell) => cell.step / by(cell);
  const [unit, size] = fitting(SECONDS, Math.max(0, ...drawn.map((number) => total(cells[number]))));
  const layers = TIME_LAYERS.map(([part, name, look, pattern]) => ({
    name, look, pattern, value: (cell) => cell.time[part] / by(cell),
  }));
  stacked(element, drawn, layers, { total, size, unit });
});
