// The views: a prefix, an item, the results of a search, the answers of a model. Each returns its title and elements.

import { counted, h, link, number, pager, percent, toItem, toPrefix, words } from "./dom.js";
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
    [number(node.largest), `${node.largest === 1 ? "item" : "items"} on the most crowded SID`],
  ];
  return h("dl", { class: "facts" }, shown.map(([value, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function siblings(node) {
  if (!node.siblings || node.siblings.total < 2) return null;
  const { list: near, rank, total } = node.siblings;
  return h(
    "section", {},
    h("h2", {}, "Siblings"),
    h("p", { class: "soft" }, `Rank ${number(rank)} of ${number(total)} by number of items, with those around it:`),
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
  const [node, members, other] = await Promise.all([
    ask("node", { ...wanted, page: view.page, sort: view.sort }),
    ask("members", { ...wanted, page: view.m }),
    two && view.beside ? ask("counterpart", wanted) : null,
  ]);
  const side = about.sides.find((one) => one.key === node.side);
  const name = node.prefix.length ? node.sid : "All items";
  const up = () => { if (node.prefix.length) go(toPrefix(node.side, node.prefix.slice(0, -1))); };
  const depth = node.prefix.length;
  const tree = depth < node.levels
    ? icicle(node.side, node.branches, depth ? `What the next token separates` : "What the first token separates",
        (page) => branchPage(view, page), up, { by: view.sort, address: (by) => link("/", { ...view, sort: by, page: 1 }) })
    : null;
  const counterpart = other ? counterpartTree(about, node, other, up) : null;
  const toggle = two
    ? h("a", { class: "toggle", href: link("/", { ...view, beside: view.beside ? "" : "1" }), "aria-pressed": view.beside ? "true" : "false", role: "button" }, view.beside ? "Hide the other table" : "Side by side")
    : null;
  const content = [
    crumbs(node.side, node.path),
    h("div", { class: "head" }, h("h1", { tabindex: -1, class: depth ? "sid" : null }, name), two ? h("span", { class: "badge" }, side.name) : null, toggle),
    facts(node),
    node.shared.length || (node.apart ?? []).length
      ? h("div", { class: "word-lists" },
          node.shared.length ? h("div", {}, h("h2", {}, "Shared words"), words(node.shared, "Shared words")) : null,
          (node.apart ?? []).length ? h("div", {}, h("h2", {}, "Apart from its siblings"), words(node.apart, "Words that set it apart")) : null)
      : null,
    tree || counterpart ? h("div", { class: counterpart ? "pair" : "" }, tree, counterpart) : null,
    h("div", { class: "below" },
      h("section", { class: "members" },
        h("h2", {}, counted(members.total, "item")),
        list(members.list),
        pager(members.page, members.pages, members.total, PAGE, (page) => link("/", { ...view, m: page }), "items")),
      siblings(node)),
  ];
  return { title: name, content };
}

function counterpartTree(about, node, other, up) {
  const { name } = about.sides.find((one) => one.key === other.side);
  const title = `The same items in ${name}${other.prefix.length ? `, all under ${other.sid}` : ""}`;
  const missing = other.missing ? h("p", { class: "soft" }, `${counted(other.missing, "item")} of these are not in ${name}.`) : null;
  const drawn = icicle(other.side, other.branches, title, () => link("/", { t: node.side, p: node.prefix.join("-"), beside: 1 }), up, null);
  const rest = other.branches.total - other.branches.list.length;
  drawn.querySelector(".pager")?.remove();
  return h("div", {}, drawn, rest > 0 ? h("p", { class: "soft" }, `and ${counted(rest, "smaller branch", "smaller branches")}`) : null, missing);
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
      h("caption", { class: "unseen" }, "What each token adds"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "token"), h("th", { scope: "col", class: "n" }, "items"),
        both ? h("th", { scope: "col", class: "n", title: "how many of these items the other table keeps together at this depth" }, "together in both") : null,
        h("th", { scope: "col" }, about.texts ? "words it adds" : ""))),
      h("tbody", {}, rows))),
    h("h3", {}, others.length ? `${counted(mates.total - 1, "other item")} with the same SID` : "No other item has this SID"),
    list(others.slice(0, 5)),
    mates.total - 1 > 5 ? h("p", {}, h("a", { href: toPrefix(key, one.prefix) }, `All ${number(mates.total)}`)) : null,
  );
}

async function fillNear(ask, about, target, id, keys) {
  for (const key of keys) {
    try {
      const near = await ask("near", { id, t: key });
      const side = about.sides.find((one) => one.key === key);
      const name = keys.length > 1 ? ` in ${side.name}` : "";
      const levels = side.sizes.length;
      const cosine = (one) => h("span", { class: "cosine", title: "cosine of the embeddings" }, one.cosine.toFixed(2));
      const share = h("p", { class: "soft" }, `Of its ${number(near.nearest)} nearest items by embedding, `,
        near.sharing.map((n, at) => `${number(n)} share ${at ? `${at + 1} tokens` : "the first token"}`).join(", "), ".");
      target.append(h("div", { class: "pair" },
        h("section", { class: "card" }, h("h2", {}, `Near by embedding, far by SID${name}`), share,
          near.apart.length ? list(near.apart, cosine) : h("p", {}, "None: all of them share the first token.")),
        h("section", { class: "card" }, h("h2", {}, `Near by SID, far by embedding${name}`),
          h("p", { class: "soft" }, near.depth ? `The least similar of ${counted(near.mates, "other item")} that share ${near.depth === levels ? "the whole SID" : counted(near.depth, "token")}.` : "No other item shares its first token."),
          list(near.odd, cosine))));
    } catch (error) {
      target.append(h("p", { class: "soft" }, error.message));
    }
  }
}

export async function searchView(ask, about, query) {
  const q = query.get("q") ?? "";
  const results = await ask("search", { q, page: query.get("page") ?? 1 });
  const exact = results.item ? h("section", {}, h("h2", {}, "The item with this id"), list([results.item])) : null;
  const prefixes = results.prefixes.length
    ? h("section", {}, h("h2", {}, "The SID"), h("ul", { class: "items" }, results.prefixes.map((one) =>
        h("li", {}, h("a", { class: "title sid", href: toPrefix(one.side, one.prefix) }, one.sid),
          h("span", { class: "meta" }, counted(one.items, "item"), about.sides.length > 1 ? ` in ${about.sides.find((side) => side.key === one.side).name}` : "")))))
    : null;
  const content = [
    h("h1", { tabindex: -1 }, q ? `“${q}”` : "Search"),
    prefixes, exact,
    h("section", {},
      h("h2", {}, results.total ? counted(results.total, "item") : "No item found"),
      results.total ? list(results.list) : h("p", {}, about.texts ? "Every word must occur in the text; the last one may be incomplete." : "Without --items, only ids and SIDs can be results."),
      pager(results.page, results.pages, results.total, PAGE, (page) => link("/search", { q, page }), "results")),
  ];
  return { title: q ? `${q} – search` : "Search", content };
}

export async function askView(ask, about, query, go) {
  const q = query.get("q") ?? "";
  const answer = await ask("ask", { q });
  const box = h("input", { type: "search", name: "q", value: q, maxlength: 500, "aria-label": "Ask the search model", placeholder: "What a shopper would type", spellcheck: "false" });
  const form = h("form", { class: "ask", role: "search", action: "/ask" }, box, h("button", {}, "Ask"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(link("/ask", { q: box.value }));
  });
  const sid = !answer.sid ? h("p", { class: "soft" }, "This query has no SID: it is new, and the model cannot encode new ones.")
    : h("p", {}, "The query’s own SID: ", answer.prefix ? h("a", { class: "sid", href: toPrefix(answer.side, answer.prefix) }, answer.sid) : h("span", { class: "sid" }, answer.sid));
  const results = q.trim()
    ? h("section", {}, h("h2", {}, counted(answer.list.length, "item")), sid,
        list(answer.list, (item) => h("span", { title: "Probability of its SID" }, item.probability >= 0.0005 ? `${(100 * item.probability).toFixed(1)} %` : "< 0.1 %")))
    : h("p", { class: "soft" }, "The search model writes semantic IDs for a query; their items are listed, most probable first.");
  return { title: q ? `${q} – ask` : "Ask the model", content: [h("h1", { tabindex: -1 }, q ? `“${q}”` : "Ask the model"), form, results] };
}
