// Light or dark: the reader's choice, else the system's.
const root = document.documentElement;
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark.matches);

// A colour of the style sheet as the browser resolves it now.
function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const resolved = getComputedStyle(probe).color;
  probe.remove();
  return resolved;
}

function setTheme(theme) {
  root.dataset.theme = theme;
  redraw();
}

themeButton.hidden = false;
themeButton.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
systemIsDark.addEventListener("change", redraw);
drawings.push(() => {
  themeButton.textContent = isDark() ? "☀ light" : "☾ dark";
});

// Paper is white, and narrower than most windows: figures are drawn anew for its width.
let themeBefore;
addEventListener("beforeprint", () => {
  themeBefore = root.dataset.theme;
  root.classList.add("printing");
  setTheme("light");
});
addEventListener("afterprint", () => {
  root.classList.remove("printing");
  if (themeBefore) setTheme(themeBefore);
  else {
    delete root.dataset.theme;
    redraw();
  }
});
