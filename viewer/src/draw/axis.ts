// An axis of time: where a moment is drawn, and which moments have a mark.

/** What of the time is in view: [from, to) ns on `width` pixels. */
export interface View {
  readonly from: number;
  readonly to: number;
}

/** Marks at round times, some `wanted` pixels apart. */
export function ticks(view: View, width: number, wanted = 110): number[] {
  const span = view.to - view.from;
  if (!(span > 0) || width <= 0) return [];
  const rough = (span * wanted) / width;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(view.from / step);
  const marks: number[] = [];
  for (let place = first; place * step < view.to; place += 1) marks.push(place * step);
  return marks;
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]] as const;

/** What a mark says: enough digits to tell it from its neighbours, in the unit of the largest mark beside it. */
export function tickLabel(ns: number, step: number, largest = Math.abs(ns)): string {
  if (ns === 0) return "0";
  const [size, unit] = UNITS.find(([one]) => Math.max(largest, step) >= one) ?? UNITS[3];
  // As many as the step has: steps of 2.5 ms are not to be read as 3, 5 and 8.
  const unitSteps = step / size;
  let places = 0;
  while (places < 9 && Math.abs(unitSteps * 10 ** places - Math.round(unitSteps * 10 ** places)) > 1e-6 * unitSteps * 10 ** places) places += 1;
  return `${(ns / size).toFixed(places)} ${unit}`;
}

/** Marks at round sizes from nothing up to a peak: in steps of 1, 2 or 5 of the unit that the peak is said in. */
export function sizeTicks(peak: number, most = 5): number[] {
  if (!(peak > 0)) return [0];
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(peak) / Math.log(1024) + 1e-9));
  const rough = peak / unit / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough - 1e-9) ?? 10) * unit;
  return Array.from({ length: Math.floor(peak / step + 1e-9) + 1 }, (_, place) => place * step);
}

/** The view zoomed by a factor around a moment, inside of [least, most]. */
export function zoomed(view: View, around: number, factor: number, least: number, most: number, smallest = 20): View {
  const span = Math.min(Math.max((view.to - view.from) * factor, smallest), most - least);
  const share = (around - view.from) / (view.to - view.from);
  return moved({ from: around - share * span, to: around - share * span + span }, 0, least, most);
}

/** The view moved by some time, stopping at either end. */
export function moved(view: View, by: number, least: number, most: number): View {
  const span = Math.min(view.to - view.from, most - least);
  const from = Math.min(Math.max(view.from + by, least), most - span);
  return { from, to: from + span };
}
