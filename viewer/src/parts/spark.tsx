// Small pictures of numbers in a row.
import type { Column } from "../data/frame.ts";

/** The corners of a line through `count` numbers from `first`, in a box; gaps where there is none. */
export function sparkPath(values: Column, first: number, count: number, width: number, height: number): string {
  let most = 0;
  for (let place = 0; place < count; place += 1) most = Math.max(most, values[first + place] || 0);
  if (!most || count < 2) return "";
  const parts: string[] = [];
  let pen = false;
  const each = Math.max(1, Math.floor(count / width));
  for (let place = 0; place < count; place += each) {
    let value = Number.NaN;
    // Of several in one pixel the largest: a single slow run must not vanish.
    for (let one = place; one < Math.min(count, place + each); one += 1) {
      const found = values[first + one] ?? Number.NaN;
      if (!Number.isNaN(found) && !(found <= value)) value = found;
    }
    if (Number.isNaN(value)) {
      pen = false;
      continue;
    }
    const x = (place / (count - 1)) * width;
    const y = height - 1 - (value / most) * (height - 2);
    parts.push(`${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`);
    pen = true;
  }
  return parts.join("");
}

export function Spark({ values, first = 0, count, label }: { values: Column; first?: number; count: number; label: string }) {
  return (
    <svg class="spark" width="72" height="16" role="img" aria-label={label}>
      <path d={sparkPath(values, first, count, 72, 16)} fill="none" stroke="currentColor" stroke-width="1" />
    </svg>
  );
}

/** A bar of a share, 0 to 1. */
export function Bar({ share, colour }: { share: number; colour?: string | undefined }) {
  return (
    <span class="bar" aria-hidden="true">
      <span style={{ width: `${Math.max(0, Math.min(1, share || 0)) * 100}%`, ...(colour ? { background: colour } : {}) }} />
    </span>
  );
}
