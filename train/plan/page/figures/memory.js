// What a rank holds at its peak, by part.
const PART_LOOKS = {
  params: ["ddp", ""],
  buffers: ["dp", "."],
  grads: ["fsdp", "/"],
  master: ["zero1", ""],
  optimizer: ["zero2", "\\"],
  strategy_buffers: ["hsdp", "x"],
  activations: ["single", ""],
};
const [memoryUnit, memorySize] = fitting(UNITS, Math.max(0, ...cells.map((cell) => cell.peak)));

figure("memory-figure", (element) => {
  const drawn = numbersShown();
  const layers = parts.map(([part, name]) => ({
    name,
    look: PART_LOOKS[part][0],
    pattern: PART_LOOKS[part][1],
    value: (cell) => cell.memory[part],
  }));
  stacked(element, drawn, layers, {
    total: (cell) => cell.peak,
    size: memorySize,
    unit: memoryUnit,
    limits: drawn.map((number) => cells[number].device),
  });
});
