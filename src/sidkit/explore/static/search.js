// Suggestions while typing: a combobox after the ARIA authoring practices.

import { counted, h, toItem, toPrefix } from "./dom.js";

export function suggest(ask, go) {
  const form = document.getElementById("search");
  const input = document.getElementById("q");
  const box = document.getElementById("suggestions");
  let timer, running, at = -1, options = [];

  const close = () => {
    clearTimeout(timer);
    running?.abort();
    box.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    at = -1;
  };
  const option = (href, main, side) => {
    const row = h("li", { role: "option", id: `suggestion-${options.length}`, "aria-selected": "false", "data-href": href },
      h("span", { class: "title" }, main), h("span", { class: "meta" }, side));
    row.addEventListener("mousedown", (event) => { event.preventDefault(); leave(href); });
    options.push(row);
    return row;
  };
  const leave = (href) => { close(); input.blur(); go(href); };
  const show = (results) => {
    options = [];
    for (const one of results.prefixes) option(toPrefix(one.side, one.prefix), one.sid, counted(one.items, "item"));
    if (results.item) option(toItem(results.item.id), results.item.text || results.item.id, results.item.id);
    for (const one of results.list.slice(0, 8)) {
      if (!results.item || one.id !== results.item.id) option(toItem(one.id), one.text || one.id, one.sid ?? "");
    }
    box.replaceChildren(...options);
    at = -1;
    box.hidden = !options.length;
    input.setAttribute("aria-expanded", String(Boolean(options.length)));
    document.getElementById("status").textContent = `${counted(results.total, "item")} found`;
  };
  const select = (to) => {
    if (!options.length) return;
    at = (to + options.length) % options.length;
    options.forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
    input.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    running?.abort();
    const q = input.value.trim();
    if (!q) return close();
    timer = setTimeout(async () => {
      running = new AbortController();
      try { show(await ask("search", { q }, running.signal)); } catch (error) { if (error.name !== "AbortError") close(); }
    }, 90);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    if (box.hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    select(event.key === "ArrowDown" ? at + 1 : at < 0 ? -1 : at - 1);
  });
  input.addEventListener("blur", () => setTimeout(close, 100));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!box.hidden && at >= 0) return leave(options[at].dataset.href);
    const q = input.value.trim();
    if (q) leave(`/search?${new URLSearchParams({ q })}`);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.activeElement?.matches("input, textarea, select")) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
