// From addresses to views. Links are followed without reloading the page; back, forward and reload work.

import { h, toPrefix } from "./dom.js";
import { suggest } from "./search.js";
import { share } from "./share.js";
import { askView, itemView, prefixView, searchView } from "./views.js";

const views = { "/": prefixView, "/item": itemView, "/search": searchView, "/ask": askView };
const main = document.getElementById("main");
let turn = 0;
let about = null;

async function ask(name, values, signal) {
  let answer;
  try {
    answer = await fetch(`/api/${name}?${new URLSearchParams(values)}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The explorer no longer answers. Was it stopped?");
  }
  const body = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (!answer.ok) throw new Error(body.error ?? `status ${answer.status}`);
  return body;
}

function nothing(message) {
  return {
    title: "Nothing here",
    content: [h("h1", { tabindex: -1 }, "Nothing here"), h("p", {}, message), h("p", {}, h("a", { href: "/" }, "Back to all items"))],
  };
}

async function render(focus, scroll = 0) {
  const thisTurn = ++turn;
  const address = new URL(location.href);
  main.setAttribute("aria-busy", "true");
  let shown;
  try {
    about ??= await ask("about", {});
    const view = views[address.pathname];
    shown = view ? await view(ask, about, address.searchParams, go) : nothing(`There is no page ${address.pathname}.`);
  } catch (error) {
    shown = nothing(error.message);
  }
  if (thisTurn !== turn) return; // another address was opened meanwhile
  main.replaceChildren(...shown.content.filter(Boolean));
  main.setAttribute("aria-busy", "false");
  document.title = `${shown.title} · sidkit explorer`;
  document.getElementById("q").value = address.pathname === "/search" ? address.searchParams.get("q") ?? "" : "";
  sides(address.searchParams.get("t") ?? "a");
  if (focus) main.querySelector("h1")?.focus({ preventScroll: true });
  window.scrollTo(0, scroll);
}

function sides(now) {
  if (!about) return;
  const onPrefix = location.pathname === "/";
  const tables = about.sides.length < 2 ? [] : about.sides.map((side) =>
    h("a", { href: toPrefix(side.key, []), "aria-current": onPrefix && side.key === now ? "true" : null, title: side.name }, side.name));
  const model = about.model ? [h("a", { href: "/ask", "aria-current": location.pathname === "/ask" ? "true" : null }, "Ask the model")] : [];
  document.getElementById("sides").replaceChildren(...tables, ...model);
}

function go(href) {
  history.replaceState({ scroll: window.scrollY }, "");
  history.pushState({ scroll: 0 }, "", href);
  render(true);
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.href);
});
window.addEventListener("popstate", (event) => render(true, event.state?.scroll ?? 0));
history.scrollRestoration = "manual";
suggest(ask, go, () => about);
share();
render(false);
