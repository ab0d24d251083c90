// Search: ops, types, layers and lines of the run that is shown.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Store } from "../data/store.ts";
import { text } from "../data/frame.ts";
import type { Index } from "../data/types.ts";
import { spent } from "../format.ts";
import type { Selection } from "../state.ts";
import { Name } from "./name.tsx";

export interface Found {
  readonly select: Selection;
  readonly kind: string;
  readonly detail: string;
  readonly ns: number;
}

/** What has the words, longest first: lines, layers and types with what they sum to, then ops. */
export function find(index: Index, words: string, most = 40): Found[] {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const groups = new Map<string, Found>();
  const ops: Found[] = [];
  const add = (kind: "layer" | "type" | "line", name: string, ns: number): void => {
    if (!name || !name.toLowerCase().includes(wanted)) return;
    const key = `${kind}:${name}`;
    const before = groups.get(key);
    groups.set(key, { select: { kind, name }, kind, detail: "", ns: (before?.ns ?? 0) + ns });
  };
  for (let row = 0; row < index.name.length; row += 1) {
    const name = index.name[row] ?? "";
    const ns = index.self_ns[row] ?? 0;
    const type = text(index.type, row);
    add("layer", text(index.layer, row), ns);
    add("type", type, ns);
    add("line", text(index.line, row), ns);
    if (ops.length < most && name.toLowerCase().includes(wanted)) ops.push({ select: { kind: "op", name }, kind: "op", detail: type, ns });
  }
  const largest = [...groups.values()].sort((one, other) => other.ns - one.ns).slice(0, 8);
  return [...largest, ...ops].slice(0, most);
}

interface Props {
  readonly store: Store;
  readonly run: string | undefined;
  readonly onChoose: (selection: Selection) => void;
}

export function Search({ store, run, onChoose }: Props) {
  const [words, setWords] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const [, again] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => store.listen(() => again((count) => count + 1)), [store]);
  const index = open ? store.ask<Index>({ name: "index", params: { run } }) : undefined;
  const here = index?.value ? find(index.value, words) : [];
  const more = open && index?.value && !index.value.complete && words.trim().length > 1 && store.source.follows
    ? store.ask<Index>({ name: "search", params: { run, q: words.trim() } }).value
    : undefined;
  const found = more ? find(more, words) : here;
  const choose = (one: Found | undefined): void => {
    if (!one) return;
    onChoose(one.select);
    setOpen(false);
    input.current?.blur();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") choose(found[at]);
    else if (event.key === "Escape") {
      setOpen(false);
      input.current?.blur();
    } else return;
    event.preventDefault();
  };
  return (
    <div class="search" role="search">
      <input ref={input} id="search" type="search" autocomplete="off" spellcheck={false} placeholder="search ops, layers, lines …" aria-label="Search ops, layers and lines" aria-expanded={open} aria-controls="found" role="combobox" value={words}
        onFocus={() => setOpen(true)} onBlur={() => setTimeout(() => setOpen(false), 150)} onKeyDown={press}
        onInput={(event) => { setWords(event.currentTarget.value); setAt(0); setOpen(true); }} />
      <kbd aria-hidden="true">/</kbd>
      {open && words.trim() && (
        <ul id="found" role="listbox" aria-label="Found">
          {found.map((one, place) => (
            <li key={`${one.kind}:${one.select.name}`} role="option" aria-selected={place === at} class={place === at ? "on" : ""} onMouseDown={(event) => { event.preventDefault(); choose(one); }}>
              <span class="kind">{one.kind}</span><Name of={one.select.name} most={56} /><span class="quiet">{one.detail}</span><span class="figure">{spent(one.ns)}</span>
            </li>
          ))}
          {!found.length && <li class="quiet" role="option" aria-selected="false">{index?.failure ? index.failure.what : index?.value ? "Nothing has these words." : "Loading …"}</li>}
        </ul>
      )}
    </div>
  );
}
