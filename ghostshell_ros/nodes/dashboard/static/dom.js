// SPDX-License-Identifier: Apache-2.0
// Make and update elements. Text from elsewhere only ever becomes a text node.

/** Return the element with that id. */
export const byId = (id) => document.getElementById(id);

/** Make an element. `props`: class, text, hidden, any attribute, and on…: a listener. */
export function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Set the text of an element where it is another: what is the same is neither drawn nor read out again. */
export function say(node, text) {
  const wanted = text ?? "";
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Set an attribute where it is another; false and null take it away. */
export function set(node, name, value) {
  if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const lists = new Map();

/** Show one child for each item: `build(item)` makes it, `update(child, item)` fills it in. One that stays is not moved, so it keeps the focus. */
export function list(parent, items, key, build, update) {
  const have = lists.get(parent) ?? new Map();
  const kept = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const id = key(item);
    if (kept.has(id)) continue;
    const child = have.get(id) ?? build(item);
    kept.set(id, child);
    update(child, item);
  }
  for (const [id, child] of have) {
    if (kept.has(id)) continue;
    if (place === child) place = child.nextSibling;
    child.remove();
  }
  for (const child of kept.values()) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  lists.set(parent, kept);
}

/** Make every list anew with its next update, in another language. */
export function forgetLists() {
  for (const [parent, children] of lists) {
    for (const child of children.values()) child.remove();
    if (!parent.isConnected) lists.delete(parent);
    else lists.set(parent, new Map());
  }
}

/** Return whether a person writes in that element. */
export function isTextField(node) {
  if (!(node instanceof HTMLElement)) return false;
  if (node.isContentEditable || node instanceof HTMLTextAreaElement) return true;
  return node instanceof HTMLInputElement && !["button", "checkbox", "radio", "range", "submit", "reset"].includes(node.type);
}

/** Return whether the space bar works that element. */
export function takesSpace(node) {
  return isTextField(node) || (node instanceof Element && node.closest("button, select, summary, input, a[href]") !== null);
}
