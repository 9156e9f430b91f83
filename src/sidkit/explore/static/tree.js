// The icicle: a row per branch, as tall as its number of items; in each, the largest branches of the next level.

import { counted, h, link, number, pager, toPrefix } from "./dom.js";

const hue = (code) => String((code * 137.508) % 360);
const PAGE = 24;

function label(branch, total) {
  const words = branch.words && branch.words.length ? `: ${branch.words.join(", ")}` : "";
  const of = total === undefined ? "" : ` of its ${number(total)}`;
  return `${branch.token}, ${counted(branch.items, "item")}${of}${words}`;
}

function twigs(side, branch) {
  if (!branch.twigs.length) return null;
  const rest = branch.rest
    ? h("span", { class: "twig rest", style: { "--items": branch.rest }, title: `${counted(branch.more, "more branch", "more branches")}, ${counted(branch.rest, "item")}` },
        h("span", {}, h("b", {}, `${number(branch.more)} more`)))
    : null;
  return h(
    "div", { class: "twigs", role: "group", "aria-label": `Largest branches of ${branch.token}` },
    branch.twigs.map((twig) =>
      h("a", {
        class: "twig", role: "treeitem", "aria-level": 2, tabindex: -1, href: toPrefix(side, twig.prefix),
        "aria-label": label(twig), title: `${twig.token} under ${branch.token}: ${counted(twig.items, "item")}`, style: { "--items": twig.items },
      }, h("span", {}, h("b", {}, twig.token), h("i", {}, number(twig.items))))),
    rest,
  );
}

function row(side, branch) {
  const of = branch.total === undefined ? null : h("small", {}, ` of ${number(branch.total)}`);
  const branchLink = h(
    "a", {
      class: "branch", role: "treeitem", "aria-level": 1, tabindex: -1, href: toPrefix(side, branch.prefix),
      "aria-label": label(branch, branch.total), "aria-expanded": branch.twigs.length ? "true" : null,
    },
    h("b", {}, branch.token), h("i", {}, number(branch.items), of), h("span", {}, branch.words.join(", ")),
  );
  return h(
    "div", { class: branch.twigs.length ? "row" : "row leaf", role: "none", style: { "--items": branch.items, "--hue": hue(branch.prefix.at(-1)) } },
    branchLink, twigs(side, branch),
  );
}

function legend(branches) {
  const swatch = (kind) => h("span", { class: `swatch of-${kind}`, "aria-hidden": "true" });
  const deeper = branches.list.some((branch) => branch.twigs.length);
  const rest = branches.list.some((branch) => branch.rest);
  return h(
    "p", { class: "legend" },
    h("span", {}, swatch("branch"), deeper ? "a branch, as tall as it has items" : "a SID, as tall as it has items"),
    deeper ? h("span", { class: "deeper" }, swatch("twig"), "its next tokens, as wide as they have items") : null,
    rest ? h("span", { class: "deeper" }, swatch("rest"), "further ones") : null,
    h("span", {}, "Colours stand for a token’s number and mean nothing else: equal tokens have equal colours."),
  );
}

// One tab stop. Up and down move within a level, right goes into a branch, left out of it and then up a level.
function walk(tree, up) {
  const all = [...tree.querySelectorAll("[role=treeitem]")];
  if (all.length) all[0].tabIndex = 0;
  const go = (to) => {
    if (!to) return;
    for (const one of all) one.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };
  tree.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const here = document.activeElement;
    if (!all.includes(here)) return;
    const level = here.getAttribute("aria-level");
    const equals = all.filter((one) => one.getAttribute("aria-level") === level);
    const at = equals.indexOf(here);
    const moves = {
      ArrowDown: () => go(equals[at + 1]),
      ArrowUp: () => go(equals[at - 1]),
      ArrowRight: () => (level === "1" ? go(here.parentElement.querySelector(".twig[href]")) : null),
      ArrowLeft: () => (level === "2" ? go(here.closest(".row").querySelector(".branch")) : up()),
      Home: () => go(all[0]),
      End: () => go(equals.at(-1)),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  tree.addEventListener("focusin", (event) => {
    if (all.includes(event.target)) for (const one of all) one.tabIndex = one === event.target ? 0 : -1;
  });
}

// side: the table of these tokens; address: of a page of branches; up: what the left arrow does at the outer level.
export function icicle(side, branches, title, address, up, sort) {
  const tree = h(
    "div", { class: "icicle", role: "tree", "aria-label": title, style: { "--n": branches.list.length } },
    branches.list.map((branch) => row(side, branch)),
  );
  walk(tree, up);
  const sorting = sort
    ? h("span", { class: "sorting" }, "sorted by ",
        ["items", "token"].map((by) =>
          by === sort.by
            ? h("b", { "aria-current": "true" }, by)
            : h("a", { href: sort.address(by) }, by)))
    : null;
  return h(
    "section", { class: "tree" },
    h("h2", {}, title),
    h("div", { class: "bar" },
      h("span", {}, `${number(branches.total)} of ${number(branches.size)} tokens in use`),
      branches.total > 1 ? sorting : null,
      pager(branches.page, branches.pages, branches.total, PAGE, address, "branches")),
    tree,
    legend(branches),
  );
}

export const branchPage = (view, page) => link("/", { ...view, page });
