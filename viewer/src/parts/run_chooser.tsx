// Which run is shown: the typical one, the failed, the slowest, any by its number.
import { useEffect, useRef, useState } from "preact/hooks";
import { text } from "../data/frame.ts";
import type { Store } from "../data/store.ts";
import type { Runs, Session } from "../data/types.ts";
import { count, shortened, spent, whole } from "../format.ts";

/** The rows of the list, in the order that helps most: failed, slowest, then as they came. */
export function ordered(runs: Runs, words: string, most = 200): number[] {
  const wanted = words.trim().toLowerCase().replace(/^#/, "");
  const rows = Array.from({ length: runs.number.length }, (_, row) => row).filter((row) => {
    if (!wanted) return true;
    return String(runs.number[row]) === wanted || [runs.name[row] ?? "", text(runs.kind, row), text(runs.status, row)].some((one) => one.toLowerCase().includes(wanted));
  });
  const failed = rows.filter((row) => !runs.ok[row]);
  const slowest = rows.filter((row) => runs.ok[row]).sort((one, other) => (runs.ns[other] ?? 0) - (runs.ns[one] ?? 0)).slice(0, 5);
  const first = new Set([...failed.slice(0, 20), ...(rows.length > 12 ? slowest : [])]);
  return [...first, ...rows.filter((row) => !first.has(row))].slice(0, most);
}

interface Props {
  readonly store: Store;
  readonly session: Session;
  readonly run: string;
  readonly onChoose: (run: string) => void;
}

export function RunChooser({ store, session, run, onChoose }: Props) {
  const [open, setOpen] = useState(false);
  const [words, setWords] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const runs = store.ask<Runs>({ name: "runs" });
  useEffect(() => {
    if (!open) return undefined;
    const away = (event: Event): void => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const shown = run === "" ? session.typical?.run : run;
  const row = runs.value ? Array.prototype.findIndex.call(runs.value.number, (one: number) => String(one) === String(shown)) as number : -1;
  const label = run === "all" ? "all runs" : run === "step" ? "longest step of all workers" : run === "" ? (session.typical ? `typical (#${session.typical.run})` : "none") : `#${run}`;
  const pick = (value: string): void => {
    onChoose(value);
    setOpen(false);
  };
  return (
    <div class="chooser" ref={box} onKeyDown={(event) => event.key === "Escape" && setOpen(false)}>
      <button type="button" class="plain" aria-expanded={open} aria-haspopup="dialog" onClick={() => setOpen(!open)} title={row >= 0 ? shortened(runs.value?.name[row] ?? "", 200) : ""}>
        <span class="quiet">run</span> {label} {row >= 0 && runs.value && !runs.value.ok[row] && <span class="failed-sign">✕ {text(runs.value.status, row)}</span>}<span aria-hidden="true"> ▾</span>
      </button>
      {open && (
        <div class="popover" role="dialog" aria-label="Choose a run">
          <input type="search" aria-label="Filter runs by number, name, kind or status" placeholder="number, name, kind, status" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          <ul>
            {session.typical && !words && <li><button type="button" class={run === "" ? "on" : ""} onClick={() => pick("")}><b>typical (#{session.typical.run})</b><span class="quiet">{session.typical.why}</span></button></li>}
            {!words && <li><button type="button" class={run === "all" ? "on" : ""} onClick={() => pick("all")}><b>all runs</b><span class="quiet">one after the other, on the timeline</span></button></li>}
            {runs.value && ordered(runs.value, words).map((one) => {
              const all = runs.value as Runs;
              const id = String(all.number[one]);
              return (
                <li key={id}>
                  <button type="button" class={`run ${run === id ? "on" : ""}`} onClick={() => pick(id)}>
                    <span class="figure">#{whole(Number(id))}</span>
                    <span class="name">{shortened(text(all.kind, one) || (all.name[one] ?? ""), 40)}</span>
                    <span class="figure">{spent(all.ns[one])}</span>
                    <span class="quiet">{count(all.ops[one])} ops</span>
                    {!all.ok[one] && <span class="failed-sign">✕ {text(all.status, one)}</span>}
                  </button>
                </li>
              );
            })}
            {!runs.value && <li class="quiet">{runs.failure?.what ?? "Loading …"}</li>}
          </ul>
        </div>
      )}
    </div>
  );
}
