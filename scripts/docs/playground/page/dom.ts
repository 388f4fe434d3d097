// Elements without a framework.

type Child = Node | string;

/** Makes an element. Properties whose name begins with `aria-` or `data-`, `for` and `role` become attributes. */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Readonly<Record<string, unknown>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (/^(aria-|data-|for$|role$)/.test(key)) element.setAttribute(key, String(value));
    else Object.assign(element, { [key]: value });
  }
  element.append(...children);
  return element;
}

let ids = 0;

/** A field with its label. */
export function labelled<T extends HTMLElement>(label: string, field: T, hint?: string): HTMLElement {
  field.id = `playground-${(ids += 1)}`;
  const parts: Child[] = [h('label', { for: field.id }, label), field];
  if (hint !== undefined) {
    const id = `${field.id}-hint`;
    field.setAttribute('aria-describedby', id);
    parts.push(h('small', { id }, hint));
  }
  return h('div', { className: 'field' }, ...parts);
}

/** A button that copies a text, and shows that it did. */
export function copyButton(label: string, textOf: () => string): HTMLElement {
  const done = h('span', { role: 'status', className: 'copied' });
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(textOf());
    done.textContent = 'Copied';
    setTimeout(() => (done.textContent = ''), 2000);
  };
  const fail = (): void =>
    void (done.textContent = 'The browser does not allow copying. Select the text instead.');
  const button = h('button', { type: 'button', onclick: () => void copy().catch(fail) }, label);
  return h('span', { className: 'copy' }, button, done);
}
