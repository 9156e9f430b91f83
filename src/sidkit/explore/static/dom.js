// The only place where elements are made. Texts become text nodes, so nothing in a title is ever read as markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const number = (n) => Number(n).toLocaleString("en");
export const counted = (n, one, more = `${one}s`) => `${number(n)} ${Number(n) === 1 ? one : more}`;
export const percent = (part, total) => {
  const share = total ? (100 * part) / total : 0;
  return `${share >= 10 || share === 0 ? Math.round(share) : share.toPrecision(2)}%`;
};

// Addresses: /?t=b&p=12-3&page=2. Default values are left out, so that equal views have equal addresses.
export function link(path, values = {}) {
  const defaults = { t: "a", p: "", page: 1, m: 1, sort: "items", beside: "" };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && String(value) !== String(defaults[name] ?? "")) query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export const toPrefix = (side, prefix, more = {}) => link("/", { t: side, p: prefix.join("-"), ...more });
export const toItem = (id) => `/item?${new URLSearchParams({ id })}`;

export function pager(page, pages, total, size, address, noun) {
  if (pages < 2) return null;
  const first = page * size + 1;
  const step = (to, label, sign) =>
    to < 0 || to >= pages
      ? h("span", { class: "step off", "aria-hidden": "true" }, sign)
      : h("a", { class: "step", href: address(to + 1), "aria-label": `${label} ${noun}` }, sign);
  return h(
    "nav", { class: "pager", "aria-label": `Pages of ${noun}` },
    step(page - 1, "Previous", "‹"),
    h("span", {}, `${number(first)}–${number(Math.min(first + size - 1, total))} of ${number(total)}`),
    step(page + 1, "Next", "›"),
  );
}

export const words = (list, label) =>
  list && list.length
    ? h("ul", { class: "words", "aria-label": label }, list.map((word) => h("li", {}, word)))
    : null;
