// Builds elements. Text goes in as text only: nothing that a server says is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Make an HTML element; children are nodes or text, `null` is left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Set an element's text, touching the document only where it differs. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show or hide an element. */
export function show(node, visible) {
  node.hidden = !visible;
}

/**
 * Keep one node for each item, so that a refresh moves neither the focus nor the reader's place.
 * `make` returns a node for a new item, `update` brings it up to date.
 */
export function keyed(parent, items, keyOf, make, update) {
  const known = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = known.get(key);
    if (node === undefined) {
      node = make(item);
      node.dataset.key = key;
    }
    known.delete(key);
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of known.values()) node.remove();
}
