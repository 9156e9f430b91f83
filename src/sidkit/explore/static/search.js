// Suggestions while typing: a combobox after the ARIA authoring practices.

import { counted, h, toItem, toPrefix } from "./dom.js";

// Items with one title and one SID look the same: one line for all of them, which leads to their SID.
function distinct(items) {
  const groups = new Map();
  for (const one of items) {
    const key = JSON.stringify([one.text || one.id, one.side, one.sid]);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

// Whether a query can be nothing but a SID: a bare number may be a word as well.
const isSid = (results) => results.prefixes.length && !(results.item || (/^\d+$/.test(results.query) && results.total));

export function suggest(ask, go, about) {
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
    const sides = about()?.sides ?? [];
    const where = (key) => (sides.length > 1 ? ` in ${sides.find((side) => side.key === key).name}` : "");
    for (const one of results.prefixes) option(toPrefix(one.side, one.prefix), one.sid, counted(one.items, "item") + where(one.side));
    if (results.item) option(toItem(results.item.id), results.item.text || results.item.id, results.item.id);
    const others = results.list.filter((one) => one.id !== results.item?.id);
    for (const [one, ...alike] of distinct(others).slice(0, 8)) {
      if (alike.length && one.sid) option(toPrefix(one.side, one.prefix), one.text || one.id, `${one.sid}, ${counted(alike.length + 1, "item")}`);
      else option(toItem(one.id), one.text || one.id, one.sid ?? "");
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
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!box.hidden && at >= 0) return leave(options[at].dataset.href);
    const q = input.value.trim();
    if (!q) return;
    const side = new URLSearchParams(location.search).get("t") ?? "a";
    let results = null;
    try { results = await ask("search", { q }); } catch { /* the page of results says why */ }
    const prefix = results && isSid(results) ? results.prefixes.find((one) => one.side === side) ?? results.prefixes[0] : null;
    leave(prefix ? toPrefix(prefix.side, prefix.prefix) : `/search?${new URLSearchParams({ q })}`);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.activeElement?.matches("input, textarea, select")) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
