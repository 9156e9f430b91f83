// The three views: a prefix, an item, what a search found. Each returns its title and its elements.

import { h, link, many, number, pager, percent, toItem, toPrefix, words } from "./dom.js";
import { branchPage, icicle } from "./tree.js";

const PAGE = 25;

// item.rest: its SID without the tokens that the page shows already.
function listed(item, extra = null) {
  const codes = item.rest ? h("a", { class: "sid", href: toPrefix(item.side, item.prefix) }, item.rest) : null;
  return h(
    "li", {},
    h("a", { class: "title", href: toItem(item.id) }, item.text?.trim() || item.id),
    h("span", { class: "meta" }, extra, item.text?.trim() ? h("span", { class: "id" }, item.id) : null, codes),
  );
}

const list = (items, extra = () => null) =>
  h("ul", { class: "items" }, items.map((item) => listed(item, extra(item))));

function crumbs(side, path) {
  if (!path.length) return null;
  const steps = [{ token: "all items", prefix: [] }, ...path];
  return h(
    "nav", { class: "crumbs", "aria-label": "Prefix" },
    h("ol", {}, steps.map((step, at) =>
      h("li", {}, at === steps.length - 1
        ? h("span", { "aria-current": "page" }, step.token)
        : h("a", { href: toPrefix(side, step.prefix) }, step.token)))),
  );
}

function facts(node) {
  const shown = [
    [number(node.items), (node.items === 1 ? "item" : "items") + (node.prefix.length ? `, ${percent(node.items, node.of)} of all` : "")],
    [number(node.sids), node.sids === 1 ? "distinct SID" : "distinct SIDs"],
    [percent(node.alone, node.sids), "of these SIDs have one item"],
    [number(node.largest), `${node.largest === 1 ? "item" : "items"} in the fullest`],
  ];
  return h("dl", { class: "facts" }, shown.map(([value, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function siblings(node) {
  if (!node.siblings || node.siblings.total < 2) return null;
  const { list: near, rank, total } = node.siblings;
  return h(
    "section", {},
    h("h2", {}, "Siblings"),
    h("p", { class: "soft" }, `Number ${number(rank)} of ${number(total)} by items; those around it:`),
    h("ul", { class: "siblings" }, near.map((one) => {
      const here = one.prefix.at(-1) === node.prefix.at(-1);
      const inside = [h("b", {}, one.token), h("i", {}, number(one.items)), h("span", {}, one.words.join(", "))];
      return h("li", {}, here
        ? h("span", { "aria-current": "true" }, inside)
        : h("a", { href: toPrefix(node.side, one.prefix) }, inside));
    })),
  );
}

export async function prefixView(ask, about, query, go) {
  const view = { t: query.get("t") ?? "a", p: query.get("p") ?? "", page: query.get("page") ?? 1, m: query.get("m") ?? 1, sort: query.get("sort") ?? "items", beside: query.get("beside") ?? "" };
  const wanted = { t: view.t, p: view.p };
  const two = about.sides.length > 1;
  const [node, members, beside] = await Promise.all([
    ask("node", { ...wanted, page: view.page, sort: view.sort }),
    ask("members", { ...wanted, page: view.m }),
    two && view.beside ? ask("beside", wanted) : null,
  ]);
  const side = about.sides.find((one) => one.key === node.side);
  const name = node.prefix.length ? node.sid : "All items";
  const up = () => { if (node.prefix.length) go(toPrefix(node.side, node.prefix.slice(0, -1))); };
  const depth = node.prefix.length;
  const tree = depth < node.levels
    ? icicle(node.side, node.branches, depth ? `What the next token separates` : "What the first token separates",
        (page) => branchPage(view, page), up, { by: view.sort, address: (by) => link("/", { ...view, sort: by, page: 1 }) })
    : null;
  const others = beside ? besideTree(about, node, beside, up) : null;
  const toggle = two
    ? h("a", { class: "toggle", href: link("/", { ...view, beside: view.beside ? "" : "1" }), "aria-pressed": view.beside ? "true" : "false", role: "button" }, view.beside ? "Hide the other table" : "Side by side")
    : null;
  const content = [
    crumbs(node.side, node.path),
    h("div", { class: "head" }, h("h1", { tabindex: -1, class: depth ? "sid" : null }, name), two ? h("span", { class: "badge" }, side.name) : null, toggle),
    facts(node),
    node.shared.length || (node.apart ?? []).length
      ? h("div", { class: "said" },
          node.shared.length ? h("div", {}, h("h2", {}, "Shared words"), words(node.shared, "Shared words")) : null,
          (node.apart ?? []).length ? h("div", {}, h("h2", {}, "Apart from its siblings"), words(node.apart, "Words that set it apart")) : null)
      : null,
    tree || others ? h("div", { class: others ? "pair" : "" }, tree, others) : null,
    h("div", { class: "below" },
      h("section", { class: "members" },
        h("h2", {}, many(members.total, "item")),
        list(members.list),
        pager(members.page, members.pages, members.total, PAGE, (page) => link("/", { ...view, m: page }), "items")),
      siblings(node)),
  ];
  return { title: name, content };
}

function besideTree(about, node, beside, up) {
  const other = about.sides.find((one) => one.key === beside.side);
  const title = `The same items in ${other.name}${beside.sid ? `, all under ${beside.sid}` : ""}`;
  const missing = beside.missing ? h("p", { class: "soft" }, `${many(beside.missing, "item")} of these are not in ${other.name}.`) : null;
  const drawn = icicle(beside.side, beside.branches, title, () => link("/", { t: node.side, p: node.prefix.join("-"), beside: 1 }), up, null);
  const shown = beside.branches.list.length;
  const rest = beside.branches.total - shown;
  drawn.querySelector(".pager")?.remove();
  return h("div", {}, drawn, rest > 0 ? h("p", { class: "soft" }, `and ${many(rest, "smaller branch", "smaller branches")}`) : null, missing);
}

export async function itemView(ask, about, query) {
  const id = query.get("id") ?? "";
  const item = await ask("item", { id });
  const keys = Object.keys(item.sides);
  const mates = await Promise.all(keys.map((key) => ask("members", { t: key, p: item.sides[key].prefix.join("-") })));
  const near = h("div", { class: "near", "aria-live": "polite" });
  if (item.near && keys.length) fillNear(ask, about, near, id, keys);
  const content = [
    h("p", { class: "kicker" }, item.text ? `item ${item.id}` : "item"),
    h("h1", { tabindex: -1 }, item.text || item.id),
    h("div", { class: keys.length > 1 ? "pair" : "" }, keys.map((key, at) => sideCard(about, item, key, mates[at]))),
    near,
  ];
  return { title: item.text || item.id, content };
}

function sideCard(about, item, key, mates) {
  const one = item.sides[key];
  const name = about.sides.find((side) => side.key === key).name;
  const both = Object.keys(item.sides).length > 1;
  const rows = one.path.map((step) =>
    h("tr", {},
      h("th", { scope: "row" }, h("a", { class: "sid", href: toPrefix(key, step.prefix) }, step.token)),
      h("td", { class: "n" }, number(step.items)),
      both ? h("td", { class: "n" }, step.together === undefined ? "" : number(step.together)) : null,
      h("td", {}, step.words.join(", "))));
  const others = mates.list.filter((mate) => mate.id !== item.id);
  return h(
    "section", { class: "card" },
    h("h2", {}, both ? `${name}: ` : "", h("a", { class: "sid", href: toPrefix(key, one.prefix) }, one.sid)),
    h("div", { class: "scroll" }, h("table", {},
      h("caption", { class: "unseen" }, "What each token says"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "token"), h("th", { scope: "col", class: "n" }, "items"),
        both ? h("th", { scope: "col", class: "n", title: "of these, how many the other table keeps together at this depth" }, "together in both") : null,
        h("th", { scope: "col" }, about.texts ? "words it adds" : ""))),
      h("tbody", {}, rows))),
    h("h3", {}, others.length ? `${many(mates.total - 1, "other item")} with the same SID` : "No other item has this SID"),
    list(others.slice(0, 5)),
    mates.total - 1 > 5 ? h("p", {}, h("a", { href: toPrefix(key, one.prefix) }, `All ${number(mates.total)}`)) : null,
  );
}

async function fillNear(ask, about, place, id, keys) {
  for (const key of keys) {
    try {
      const found = await ask("near", { id, t: key });
      const name = keys.length > 1 ? ` in ${about.sides.find((side) => side.key === key).name}` : "";
      const cosine = (one) => h("span", { class: "cosine", title: "cosine of the embeddings" }, one.cosine.toFixed(2));
      const share = h("p", { class: "soft" }, `Of its ${number(found.nearest)} nearest items by embedding, `,
        found.sharing.map((n, at) => `${number(n)} share ${at ? `${at + 1} tokens` : "the first token"}`).join(", "), ".");
      place.append(h("div", { class: "pair" },
        h("section", { class: "card" }, h("h2", {}, `Near by embedding, far by SID${name}`), share,
          found.apart.length ? list(found.apart, cosine) : h("p", {}, "None: all of them share the first token.")),
        h("section", { class: "card" }, h("h2", {}, `Near by SID, far by embedding${name}`),
          h("p", { class: "soft" }, found.depth ? `The least similar of ${many(found.mates, "other item")} that share ${found.depth === about.sides[0].sizes.length ? "the whole SID" : many(found.depth, "token")}.` : "No other item shares its first token."),
          list(found.odd, cosine))));
    } catch (error) {
      place.append(h("p", { class: "soft" }, error.message));
    }
  }
}

export async function searchView(ask, about, query) {
  const q = query.get("q") ?? "";
  const found = await ask("search", { q, page: query.get("page") ?? 1 });
  const exact = found.item ? h("section", {}, h("h2", {}, "The item with this id"), list([found.item])) : null;
  const prefixes = found.prefixes.length
    ? h("section", {}, h("h2", {}, "The SID"), h("ul", { class: "items" }, found.prefixes.map((one) =>
        h("li", {}, h("a", { class: "title sid", href: toPrefix(one.side, one.prefix) }, one.sid),
          h("span", { class: "meta" }, many(one.items, "item"), about.sides.length > 1 ? ` in ${about.sides.find((side) => side.key === one.side).name}` : "")))))
    : null;
  const content = [
    h("h1", { tabindex: -1 }, q ? `“${q}”` : "Search"),
    prefixes, exact,
    h("section", {},
      h("h2", {}, found.total ? many(found.total, "item") : "No item found"),
      found.total ? list(found.list) : h("p", {}, about.texts ? "Every word must occur in the text; the last may be unfinished." : "Without --items, only ids and SIDs can be found."),
      pager(found.page, found.pages, found.total, PAGE, (page) => link("/search", { q, page }), "results")),
  ];
  return { title: q ? `${q} – search` : "Search", content };
}
