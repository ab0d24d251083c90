// Compare: two sets of runs; what became slower or larger, with the statistics of `stepscope diff`.
import { useMemo } from "preact/hooks";
import { changeColour } from "../colour.ts";
import type { Column } from "../data/frame.ts";
import type { Comparison } from "../data/types.ts";
import { change, held, number, shortened, spent, time } from "../format.ts";
import type { Page, PageProps } from "../page.ts";
import { Await, Notes } from "../parts/await.tsx";
import { Choice } from "../parts/choice.tsx";
import { Download } from "../parts/download.tsx";
import { Icicle } from "../parts/icicle.tsx";
import { Measured } from "../parts/measured.tsx";
import { Name } from "../parts/name.tsx";
import { type ColumnOf, Table, sorted, tableRows } from "../parts/table.tsx";
import { pathsOf } from "./ops.tsx";

const BY = [["name", "op"], ["type", "type"]] as const;

function View(props: PageProps) {
  const { state, act, session, data } = props;
  const sets = (which: "base" | "new") => (
    <label><span class="quiet">{which}</span>{" "}
      <select value={state[which]} onChange={(event) => act.set({ [which]: event.currentTarget.value })}>
        {session.sets.map((set) => <option key={set.id} value={set.id}>{shortened(set.label, 60)} ({number(set.runs, "run")})</option>)}
      </select>
    </label>
  );
  return (
    <div class="compare-page">
      <div class="bar-row">{sets("base")}{sets("new")}<Choice label="by" of={BY} value={state.diff as "name"} onChoose={(diff) => act.set({ diff })} /></div>
      <Await of={data.compare as never}>{(value: Comparison) => <Both {...props} value={value} />}</Await>
    </div>
  );
}

export function diffColumns(value: Comparison): ColumnOf[] {
  const of = (id: string) => (row: number): number => Number((value.rows[id] as Column | undefined)?.[row] ?? Number.NaN);
  const words = (id: string) => (row: number): string => String((value.rows[id] as readonly string[] | undefined)?.[row] ?? "");
  const amount = (id: string) => (id === "difference" ? (row: number): number => of("new")(row) - of("base")(row) : of(id));
  const shown = (id: string) => (row: number): string => (words("metric")(row) === "bytes" || words("metric")(row) === "memory" ? held : spent)(amount(id)(row));
  return [
    { id: "name", label: "op", wide: true, value: words("name"), show: (row) => <Name of={words("name")(row)} most={48} grows /> },
    { id: "op", label: "type", value: words("op"), show: (row) => <Name of={words("op")(row)} most={24} grows /> },
    { id: "metric", label: "of", value: words("metric"), show: words("metric") },
    { id: "base", label: "base", number: true, value: of("base"), show: shown("base") },
    { id: "new", label: "new", number: true, value: of("new"), show: shown("new") },
    { id: "change", label: "change", number: true, value: of("change"), show: (row) => <b class={of("significant")(row) ? (of("change")(row) > 0 ? "worse" : "better") : "quiet"}>{change(of("change")(row))}</b> },
    { id: "difference", label: "difference", number: true, value: amount("difference"), show: (row) => `${of("new")(row) > of("base")(row) ? "+" : ""}${shown("difference")(row)}`, hint: "New less base" },
    { id: "significant", label: "sure", value: of("significant"), show: (row) => (of("significant")(row) ? <b>✓</b> : ""), hint: "Whether the change is significant, all ops taken together" },
    { id: "low", label: "interval", number: true, value: of("low"), show: (row) => (Number.isNaN(of("low")(row)) ? "-" : `${change(of("low")(row))} … ${change(of("high")(row))}`) },
    { id: "p", label: "p", number: true, value: of("p"), show: (row) => (Number.isNaN(of("p")(row)) ? "-" : of("p")(row) < 0.001 ? "<0.001" : of("p")(row).toFixed(3)) },
  ];
}

function Both({ value, state, act, theme }: PageProps & { readonly value: Comparison }) {
  const columns = useMemo(() => diffColumns(value), [value]);
  const paths = useMemo(() => pathsOf(value.icicle.names, value.icicle.parent), [value]);
  const all = value.rows.name.map((_, row) => row);
  const most = value.owners.reduce((high, owner) => Math.max(high, owner.base_bytes, owner.new_bytes), 0) || 1;
  return (
    <>
      <ul class="sentences">{value.sentences.map((sentence, place) => <li key={place} class={place ? "" : "headline"}>{shortened(sentence, 300).replaceAll(" -> ", " → ")}</li>)}</ul>
      <section aria-label="By scope">
        <div class="bar-row"><h2>by scope <span class="quiet">as wide as the new time; warm is slower, cool is faster</span></h2><span class="grow" /><Download name="compare-tree" picture={() => document.querySelector(".compare-tree svg")} /></div>
        <Measured class="compare-tree">
          {(width) => (
            <Icicle label="Change by scope" names={value.icicle.names} parent={value.icicle.parent} value={value.icicle.new} width={width} root={-1} line={theme.line} ink={theme.text}
              colour={(node) => changeColour(relative(value.icicle.base[node] ?? 0, value.icicle.new[node] ?? 0), theme)}
              title={(node) => `${shortened(paths[node] ?? "", 300)}\n${time(value.icicle.base[node])} → ${time(value.icicle.new[node])}`}
              chosen={(node) => state.select?.name === paths[node]} onChoose={(node) => act.select({ kind: "layer", name: paths[node] ?? "" })} />
          )}
        </Measured>
      </section>
      <section class="rows-box" aria-label="Changes">
        <div class="bar-row"><h2>op by op</h2><span class="grow" /><Download name="compare" rows={() => tableRows(columns, sorted(all, columns, state.sort))} /></div>
        <Table label="Changes" columns={columns} count={value.rows.name.length} sort={state.sort} onSort={(sort) => act.set({ sort })}
          chosen={(row) => state.select?.name === value.rows.name[row]} onChoose={(row) => act.select({ kind: state.diff === "type" ? "type" : state.diff === "layer" ? "layer" : "op", name: value.rows.name[row] ?? "" })} />
      </section>
      {value.owners.length > 0 && (
        <section aria-label="Memory by owner">
          <h2>memory peak by owner</h2>
          <table class="short owners"><thead><tr><th>owner</th><th class="number">base</th><th class="number">new</th><th class="number">change</th><th /></tr></thead><tbody>{value.owners.map((owner) => (
            <tr key={owner.key}><td><Name of={owner.key} most={40} /></td><td class="number">{held(owner.base_bytes)}</td><td class="number">{held(owner.new_bytes)}</td><td class="number">{owner.new_bytes === owner.base_bytes ? <span class="quiet">same</span> : <b class={owner.new_bytes > owner.base_bytes ? "worse" : "better"}>{change(owner.new_bytes / owner.base_bytes - 1)}</b>}</td>
              <td class="bar-cell"><span class="bars" aria-hidden="true"><span style={{ width: `${(owner.base_bytes / most) * 100}%` }} class="base" /><span style={{ width: `${(owner.new_bytes / most) * 100}%`, background: changeColour(relative(owner.base_bytes, owner.new_bytes), theme) }} /></span></td></tr>
          ))}</tbody></table>
        </section>
      )}
      <Notes of={value} />
    </>
  );
}

/** How much more, -1 to 1: twice as much is 1, half as much is -1. */
export function relative(base: number, now: number): number {
  if (base <= 0) return now > 0 ? 1 : 0;
  return Math.max(-1, Math.min(1, Math.log2(now / base || 0.001)));
}

export const compare: Page = {
  id: "compare",
  label: "Compare",
  needs: (state) => ({ compare: { name: "compare", params: { base: state.base, new: state.new, by: state.diff } } }),
  View,
};
