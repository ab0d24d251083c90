// A table of many rows: sorted by a click, drawn only where it is looked at.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Rows } from "./download.tsx";

export interface ColumnOf {
  readonly id: string;
  readonly label: string;
  /** What it is sorted by and what CSV holds. */
  readonly value: (row: number) => number | string;
  /** What is shown. */
  readonly show: (row: number) => ComponentChildren;
  readonly number?: boolean;
  readonly wide?: boolean;
  readonly hint?: string;
  /** Left out where the table is too narrow for all, the lowest first; downloads have it. */
  readonly spare?: number;
}

interface Props {
  readonly label: string;
  readonly columns: readonly ColumnOf[];
  readonly count: number;
  /** Which rows, of all; null for all of them. */
  readonly rows?: readonly number[] | null;
  /** `column` or `-column`, downwards; "" as the rows come. */
  readonly sort: string;
  readonly onSort: (sort: string) => void;
  readonly chosen?: (row: number) => boolean;
  readonly onChoose?: (row: number) => void;
  readonly foot?: ComponentChildren;
}

export const ROW_HEIGHT = 24;

/** Row numbers in the order of a column; equal ones keep theirs. */
export function sorted(rows: readonly number[], columns: readonly ColumnOf[], sort: string): readonly number[] {
  const down = sort.startsWith("-");
  const column = columns.find((one) => one.id === (down ? sort.slice(1) : sort));
  if (!column) return rows;
  const values = new Map(rows.map((row) => [row, column.value(row)]));
  const order = (one: number, other: number): number => {
    const [left, right] = [values.get(one) ?? 0, values.get(other) ?? 0];
    if (typeof left === "string" || typeof right === "string") return String(left).localeCompare(String(right));
    if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(right)) - Number(Number.isNaN(left));
    return left - right;
  };
  return [...rows].sort((one, other) => (down ? order(other, one) : order(one, other)) || one - other);
}

/** Which rows are drawn, of those that would be below each other. */
export function visible(count: number, scroll: number, height: number, extra = 8): [number, number] {
  const first = Math.max(0, Math.floor(scroll / ROW_HEIGHT) - extra);
  return [Math.min(first, Math.max(0, count - 1)), Math.min(count, Math.ceil((scroll + height) / ROW_HEIGHT) + extra)];
}

/** The rows as they stand, for downloads. */
export function tableRows(columns: readonly ColumnOf[], rows: readonly number[]): Rows {
  const kept = columns.filter((column) => column.id !== "spark");
  return { columns: kept.map((column) => column.id), rows: rows.map((row) => kept.map((column) => column.value(row))) };
}

/** The columns that stay where so many are left out; never the one that rows are sorted by. */
export function fitting(columns: readonly ColumnOf[], sort: string, out: number): readonly ColumnOf[] {
  const spare = columns.filter((column) => column.spare !== undefined && column.id !== sort.replace(/^-/, ""));
  const gone = new Set([...spare].sort((one, other) => (one.spare ?? 0) - (other.spare ?? 0)).slice(0, out));
  return columns.filter((column) => !gone.has(column));
}

/** As many of the columns as fit into the box, tried one by one before anything is painted. */
function useFitting(box: { current: HTMLDivElement | null }, columns: readonly ColumnOf[], sort: string, width: number): readonly ColumnOf[] {
  const [tried, setTried] = useState<{ columns: readonly ColumnOf[]; width: number; out: number }>({ columns, width, out: 0 });
  const out = tried.columns === columns && tried.width === width ? tried.out : 0;
  const kept = useMemo(() => fitting(columns, sort, out), [columns, sort, out]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || element.scrollWidth <= element.clientWidth + 1) return;
    if (fitting(columns, sort, out + 1).length < kept.length) setTried({ columns, width, out: out + 1 });
  });
  return kept;
}

export function Table({ label, columns: every, count, rows = null, sort, onSort, chosen, onChoose, foot }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<[number, number, number]>([0, 800, 0]);
  const columns = useFitting(box, every, sort, place[2]);
  const all = useMemo(() => rows ?? Array.from({ length: count }, (_, row) => row), [rows, count]);
  const ordered = useMemo(() => sorted(all, every, sort), [all, every, sort]);
  const watch = (): void => {
    if (box.current) setPlace([box.current.scrollTop, box.current.clientHeight, box.current.clientWidth]);
  };
  useEffect(() => {
    const observer = new ResizeObserver(watch);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const selected = chosen ? ordered.findIndex(chosen) : -1;
  useEffect(() => {
    // A selection that was made elsewhere is brought into sight.
    const element = box.current;
    if (!element || selected < 0) return;
    const y = selected * ROW_HEIGHT;
    if (y < element.scrollTop || y > element.scrollTop + element.clientHeight - 3 * ROW_HEIGHT) {
      element.scrollTop = Math.max(0, y - element.clientHeight / 2);
    }
  }, [selected]);
  const [first, last] = visible(ordered.length, place[0], place[1]);
  const step = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by || !onChoose) return;
    event.preventDefault();
    event.stopPropagation();
    const next = ordered[Math.min(Math.max(selected + by, 0), ordered.length - 1)];
    if (next !== undefined) onChoose(next);
  };
  return (
    <div class="table" ref={box} onScroll={watch} onKeyDown={step} tabIndex={0} role="group" aria-label={label}>
      <table aria-rowcount={ordered.length}>
        <thead>
          <tr>
            {columns.map((column) => {
              const active = sort === column.id || sort === `-${column.id}`;
              return (
                <th key={column.id} class={`${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`} aria-sort={!active ? "none" : sort.startsWith("-") ? "descending" : "ascending"}>
                  <button type="button" title={column.hint ?? `Sort by ${column.label}`} onClick={() => onSort(sort === `-${column.id}` ? column.id : `-${column.id}`)}>
                    {column.label}
                    <span class="sign">{active ? (sort.startsWith("-") ? " ↓" : " ↑") : ""}</span>
                  </button>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW_HEIGHT}px` }} aria-hidden="true" />}
          {ordered.slice(first, last).map((row, place_) => (
            <tr key={row} aria-rowindex={first + place_ + 1} aria-selected={chosen?.(row) ?? false} class={chosen?.(row) ? "chosen" : ""} onClick={onChoose && (() => onChoose(row))}>
              {columns.map((column) => (
                <td key={column.id} class={`${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`}>{column.show(row)}</td>
              ))}
            </tr>
          ))}
          {last < ordered.length && <tr style={{ height: `${(ordered.length - last) * ROW_HEIGHT}px` }} aria-hidden="true" />}
        </tbody>
      </table>
      {ordered.length === 0 && <p class="empty">{count > 0 ? "No row has these words." : "There is no row here."}</p>}
      {columns.length < every.length && <p class="quiet rest">In a wider window, in CSV and in JSON: {every.filter((column) => !columns.includes(column)).map((column) => column.label).join(", ")}</p>}
      {foot}
    </div>
  );
}
