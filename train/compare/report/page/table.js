// Sorting and filtering of cells, which the figures follow.
const table = document.querySelector("table.cells");
const rows = [...table.tBodies[0].rows];

function key(row, column, isNumber) {
  const text = row.cells[column].dataset.sort ?? "";
  return isNumber ? (text === "" ? null : Number(text)) : text;
}

// What has no number stays at the end, whichever way the others go.
function sort(head, isNumber) {
  const column = head.cellIndex;
  const direction = head.ariaSort === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) if (other.ariaSort) other.ariaSort = "none";
  head.ariaSort = direction > 0 ? "ascending" : "descending";
  const compare = (a, b) => (isNumber ? a - b : a.localeCompare(b, "en", { numeric: true }));
  rows.sort((one, other) => {
    const [a, b] = [key(one, column, isNumber), key(other, column, isNumber)];
    if (a === null || b === null) return (a === null) - (b === null);
    return direction * compare(a, b);
  });
  table.tBodies[0].append(...rows);
}

for (const button of table.tHead.querySelectorAll("button")) {
  button.addEventListener("click", () => sort(button.closest("th"), button.dataset.as === "number"));
}

// A cell matches when each word is somewhere in its label, state, strategy or precision.
const filter = document.getElementById("filter");
const shown = document.getElementById("shown");
const texts = [];
for (const row of rows) {
  const { label, parallel, precision } = cells[row.dataset.row];
  const status = row.cells[1].textContent;
  texts[row.dataset.row] = `${label} ${parallel} ${precision} ${status}`.toLowerCase();
}

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  matches = (number) => words.every((word) => texts[number].includes(word));
  for (const row of document.querySelectorAll("tr[data-row]")) row.hidden = !matches(Number(row.dataset.row));
  const count = texts.filter((_, number) => matches(number)).length;
  shown.textContent = words.length ? `${count} of ${cells.length}` : "";
  redraw();
}

let pause;
filter.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(narrow, 120);
});

drawings.push(() => {
  for (const mark of document.querySelectorAll("tr[data-row] .swatch")) {
    const number = Number(mark.closest("tr").dataset.row);
    mark.innerHTML = swatch(colourOf(number), dashOf(cells[number]));
  }
});
