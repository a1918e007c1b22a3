// Before anything is drawn, so that the page does not flash in the other theme. Not a module: those wait.
try {
  document.documentElement.dataset.theme = JSON.parse(localStorage.getItem("dragon.settings") ?? "{}").theme ?? "auto";
} catch {
  document.documentElement.dataset.theme = "auto";
}
