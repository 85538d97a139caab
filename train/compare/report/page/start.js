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

// Figures are drawn for the size there is. The bar of a phone's browser comes and goes for free.
let width = innerWidth;
let settling;
addEventListener("resize", () => {
  if (isTouch && innerWidth === width) return;
  width = innerWidth;
  clearTimeout(settling);
  settling = setTimeout(redraw, 150);
});

redraw();
document.body.dataset.ready = "yes";
