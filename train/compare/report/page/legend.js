// One legend for all figures: a click hides a cell or a group, a double click leaves it alone.
const MOST_ITEMS = 40;
const every = cells.map((_, number) => number);
const groups = [
  ...(strategies.length > 1 ? strategies.map((name) => ({ name, of: "parallel" })) : []),
  ...(precisions.length > 1 ? precisions.map((name) => ({ name, of: "precision" })) : []),
].map((group) => ({ ...group, members: every.filter((number) => cells[number][group.of] === group.name) }));
const lines = distinct(every.map(lineOf));
const entries = [
  ...(lines.length > 4 ? groups : []),
  ...(lines.length <= MOST_ITEMS
    ? lines.map((line) => {
      const members = every.filter((number) => lineOf(number) === line);
      return { name: cells[members[0]].line ?? cells[members[0]].label, of: "cell", members };
    })
    : []),
];

function toggle(members) {
  const areHidden = members.every((number) => hidden.has(number));
  members.forEach((number) => (areHidden ? hidden.delete(number) : hidden.add(number)));
  redraw();
}

function only(members) {
  hidden.clear();
  every.filter((number) => !members.includes(number)).forEach((number) => hidden.add(number));
  redraw();
}

function look({ of, members: [first] }) {
  if (of === "parallel") return swatch(COLOURS[names[cells[first].parallel]][isDark() ? 1 : 0], "solid");
  if (of === "precision") return swatch("currentColor", dashOf(cells[first]));
  return swatch(colourOf(first), dashOf(cells[first]));
}

function item(entry) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = entry.of === "cell" ? "item" : "item group";
  button.title = "Click to hide or show, double-click to show nothing else";
  const mark = document.createElement("span");
  button.append(mark, entry.name);
  button.addEventListener("click", () => toggle(entry.members));
  button.addEventListener("dblclick", () => only(entry.members));
  drawings.push(() => {
    mark.innerHTML = look(entry);
    button.setAttribute("aria-pressed", String(!entry.members.every((number) => hidden.has(number))));
  });
  return button;
}

for (const legend of document.querySelectorAll(".legend")) {
  if (lines.length < 2) continue;
  const [grouped, single] = [true, false].map((wanted) => entries.filter((entry) => (entry.of !== "cell") === wanted));
  legend.append(...grouped.map(item));
  if (grouped.length && single.length) legend.append(document.createElement("hr"));
  legend.append(...single.map(item));
  const all = document.createElement("button");
  all.type = "button";
  all.className = "item all";
  all.textContent = "show all";
  all.addEventListener("click", () => {
    hidden.clear();
    redraw();
  });
  drawings.push(() => (all.hidden = hidden.size === 0));
  legend.append(all);
}
