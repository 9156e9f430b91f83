// Light, dark, or as the system has it; remembered. Runs before the page is drawn, so that nothing flashes.
"use strict";
(() => {
  const key = "sidkit-theme";
  const order = ["auto", "light", "dark"];
  const signs = { auto: "◐", light: "☀", dark: "☾" };
  let theme = "auto";
  try { theme = order.includes(localStorage.getItem(key)) ? localStorage.getItem(key) : "auto"; } catch { /* no storage */ }
  const apply = () => { document.documentElement.dataset.theme = theme; };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = signs[theme];
      button.setAttribute("aria-label", `Colours: ${theme}. Change`);
      button.title = `Colours: ${theme}`;
    };
    label();
    button.addEventListener("click", () => {
      theme = order[(order.indexOf(theme) + 1) % order.length];
      try { localStorage.setItem(key, theme); } catch { /* no storage */ }
      apply();
      label();
    });
  });
})();
