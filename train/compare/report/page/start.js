// Switches of the figures, and the first drawing.
for (const group of document.querySelectorAll(".switch")) {
  const name = group.dataset.sets;
  for (const button of group.children) {
    button.addEventListener("click", () => {
      chosen[name] = button.value;
      redraw();
    });
  }
  drawings.push(() => {
    for (const button of group.children) button.setAttribute("aria-pressed", String(button.value === chosen[name]));
  });
}

// Bars and labels are laid out by the width there is.
let width = innerWidth;
let settling;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(settling);
  settling = setTimeout(redraw, 150);
});

redraw();
document.body.dataset.ready = "yes";
